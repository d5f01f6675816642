// SPDX-License-Identifier: MIT
// does: reads a file of 64 MB twice, and sums its bytes
// record: --sample --wall
// build: gcc -O2 -g
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 18 };

static void fill(int fd, char *buffer) {
  for (int i = 0; i < 256; i++) {
    memset(buffer, i, ROOM);
    if (write(fd, buffer, ROOM) != ROOM) exit(1);
  }
}

static unsigned long sum_file(int fd, char *buffer) {
  unsigned long sum = 0;
  ssize_t n;
  lseek(fd, 0, SEEK_SET);
  while ((n = read(fd, buffer, ROOM)) > 0)
    for (ssize_t i = 0; i < n; i++)
      sum = sum * 3 + (unsigned char)buffer[i];
  return sum;
}

int main(void) {
  char path[] = "/tmp/bigXXXXXX";
  int fd = mkstemp(path);
  unlink(path);
  char *buffer = malloc(ROOM);
  fill(fd, buffer);
  printf("%lu\n", sum_file(fd, buffer) + sum_file(fd, buffer));
  free(buffer);
}
