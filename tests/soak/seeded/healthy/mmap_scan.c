// SPDX-License-Identifier: MIT
// does: maps and unmaps the windows of a file
// record: --malloc=all
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WINDOW = 1 << 20 };

static unsigned scan(int fd, int window) {
  unsigned char *p = mmap(NULL, WINDOW, PROT_READ, MAP_SHARED, fd, (off_t)window * WINDOW);
  if (p == MAP_FAILED) return 0;
  unsigned sum = 0;
  for (int i = 0; i < WINDOW; i += 64)
    sum = sum * 3 + p[i];
  munmap(p, WINDOW);
  return sum;
}

int main(void) {
  char path[] = "/tmp/scanXXXXXX";
  int fd = mkstemp(path);
  unlink(path);
  if (ftruncate(fd, 32L * WINDOW)) return 1;
  unsigned sum = 0;
  for (int i = 0; i < 400; i++) {
    sum += scan(fd, i % 32);
    usleep(4000);
  }
  printf("%u\n", sum);
}
