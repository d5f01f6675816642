// SPDX-License-Identifier: MIT
// fault: each block of a file is mapped and never unmapped: resident memory grows outside the heap
// culprit: map_block, sum_block
// kind: grow, grew, leak, mapp
// record: --malloc=all
// build: gcc -O1 -g
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 256 << 10, BLOCKS = 16 };

static int make_file(void) {
  char path[] = "/tmp/blocksXXXXXX";
  int fd = mkstemp(path);
  unlink(path);
  char *data = malloc(BLOCK);
  for (int i = 0; i < BLOCKS; i++) {
    memset(data, i, BLOCK);
    if (write(fd, data, BLOCK) != BLOCK) abort();
  }
  free(data);
  return fd;
}

static __attribute__((noinline)) uint8_t *map_block(int fd, int i) {
  uint8_t *p = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, (off_t)i * BLOCK);
  return p == MAP_FAILED ? NULL : p;
}

static __attribute__((noinline)) void decrypt(uint8_t *p, uint8_t key) {
  for (int i = 0; i < BLOCK; i += 64)
    p[i] ^= key;
}

static __attribute__((noinline)) unsigned sum_block(int fd, int i) {
  uint8_t *p = map_block(fd, i % BLOCKS);
  if (!p) return 0;
  decrypt(p, (uint8_t)i);
  unsigned sum = 0;
  for (int k = 0; k < BLOCK; k += 64)
    sum += p[k];
  return sum;
}

int main(void) {
  int fd = make_file();
  unsigned sum = 0;
  for (int i = 0; i < 600; i++) {
    sum += sum_block(fd, i);
    usleep(4000);
  }
  printf("%u\n", sum);
}
