// SPDX-License-Identifier: MIT
// does: opens 200 files at the start, and uses and keeps them
// record:
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILES = 200 };
static int shards[FILES];

static void open_shards(void) {
  for (int i = 0; i < FILES; i++) {
    char path[] = "/tmp/shardXXXXXX";
    shards[i] = mkstemp(path);
    unlink(path);
  }
}

static void put(unsigned key, long value) {
  if (pwrite(shards[key % FILES], &value, sizeof value, (off_t)(key / FILES % 100 * sizeof value)) <
      0)
    perror("pwrite");
}

static long get(unsigned key) {
  long value = 0;
  if (pread(shards[key % FILES], &value, sizeof value, (off_t)(key / FILES % 100 * sizeof value)) <
      0)
    perror("pread");
  return value;
}

int main(void) {
  open_shards();
  long sum = 0;
  for (unsigned i = 0; i < 40000; i++) {
    put(i * 2654435761u, (long)i);
    sum += get(i * 40503u);
    if (i % 20 == 0) usleep(1000);
  }
  printf("%ld\n", sum);
}
