/* SPDX-License-Identifier: MIT
 *
 * Threads that allocate, move and free each other's blocks. usage: worker THREADS ROUNDS [COUNTERS]
 * Each thread notes in the file COUNTERS, which outlives a kill, how many calls have returned.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 512, THREADS_MAX = 64 };
static void *slots[SLOTS];
static long rounds;

typedef struct counter {
  uint64_t tid, calls;
} counter_t;
static counter_t *counters;

static void *made(size_t n, unsigned how) {
  void *p = NULL;
  switch (how % 6) {
  case 0: return calloc(3, n / 3 + 1);
  case 1: return posix_memalign(&p, 64, n) ? NULL : p;
  case 2: return realloc(NULL, n);
  case 3: return aligned_alloc(32, (n + 31) & ~(size_t)31);
  default: return malloc(n);
  }
}

static __attribute__((noinline)) void *deeper(size_t n, unsigned how, unsigned depth) {
  void *p = depth ? deeper(n, how, depth - 1) : made(n, how);
  __asm__ volatile("");
  return p;
}

static void *work(void *argument) {
  size_t me = (size_t)argument;
  unsigned state = (unsigned)me * 7919 + 1;
  counters[me].tid = (uint64_t)gettid();
  for (long i = 0; i < rounds; i++) {
    state = state * 1664525 + 1013904223;
    void *p = deeper(1 + (state >> 12) % 300, state >> 5, state >> 28);
    __atomic_fetch_add(&counters[me].calls, 1, __ATOMIC_RELAXED);
    if ((state & 0x1c00) == 0) {
      p = realloc(p, 700 + (state & 63));
      __atomic_fetch_add(&counters[me].calls, 1, __ATOMIC_RELAXED);
    }
    memset(p, 1, 1);
    p = __atomic_exchange_n(&slots[state >> 8 & (SLOTS - 1)], p, __ATOMIC_ACQ_REL);
    if (!p) continue;
    free(p);
    __atomic_fetch_add(&counters[me].calls, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS_MAX];
  size_t count = (size_t)atoi(argv[1]);
  rounds = atol(argv[2]);
  int fd = argc > 3 ? open(argv[3], O_RDWR | O_CREAT, 0600) : -1;
  size_t size = THREADS_MAX * sizeof *counters;
  if (fd >= 0 && ftruncate(fd, (off_t)size) < 0) return 9;
  counters = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0);
  for (size_t i = 0; i < count; i++)
    pthread_create(&threads[i], NULL, work, (void *)i);
  for (size_t i = 0; i < count; i++)
    pthread_join(threads[i], NULL);
  if (argc > 4) { /* what is left is the exact leak: SLOTS blocks at most */
    size_t live = 0;
    for (int i = 0; i < SLOTS; i++)
      live += slots[i] != NULL;
    printf("%zu\n", live);
  }
  return 0;
}
