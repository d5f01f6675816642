/* SPDX-License-Identifier: MIT
 *
 * Allocates on THREADS threads, through some hundred call chains of 8 to 15 functions; on average
 * sixteen consecutive allocations come from nearby places. A block lives for some hundred calls.
 * Half of the blocks are freed where they are replaced, half further out, one in eight by another
 * thread.
 *
 * usage: allocate THREADS ROUNDS      rounds per thread
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { HELD = 512, THREADS_MAX = 64 };

static long rounds;
static _Atomic(void *) handed[64]; /* for another thread to free */

typedef struct job {
  uint64_t random;
  void *held[HELD];
  unsigned place; /* where allocations come from at present */
} job_t;

static uint64_t next(job_t *job) {
  job->random ^= job->random << 13;
  job->random ^= job->random >> 7;
  return job->random ^= job->random << 17;
}

static void *allocate(job_t *job, void *replaced) {
  size_t size = 16 + next(job) % 240;
  free(replaced);
  void *block = malloc(size);
  if (block) *(volatile char *)block = 1;
  return block;
}

typedef void *step_t(job_t *job, unsigned way, int left, void *replaced);
static step_t step_0, step_1, step_2, step_3;
static step_t *const steps[4] = {step_0, step_1, step_2, step_3};

#define STEP(n)                                                                                    \
  __attribute__((noinline)) static void *step_##n(job_t *job, unsigned way, int left,              \
                                                  void *replaced) {                                \
    volatile char room[32 + 32 * n];                                                               \
    room[0] = (char)left;                                                                          \
    void *block =                                                                                  \
        left ? steps[way & 3](job, way >> 2, left - 1, replaced) : allocate(job, replaced);        \
    room[1] = room[0];                                                                             \
    return block;                                                                                  \
  }
STEP(0)
STEP(1)
STEP(2)
STEP(3)

static void *work(void *argument) {
  job_t *job = argument;
  for (long i = 0; i < rounds; i++) {
    uint64_t r = next(job);
    if (r % 16 == 0) job->place = (unsigned)(r >> 8) % 64 * 0x9e3779b9u;
    int depth = 7 + (int)(job->place >> 29);
    /* Two bits a step, the outermost lowest; the last but one changes each time. */
    unsigned way = job->place ^ (unsigned)(r >> 40 & 3) << (2 * depth - 2);
    void **held = &job->held[r >> 32 & (HELD - 1)], *replaced = *held;
    if (r >> 16 & 1) {
      free(replaced);
      replaced = NULL;
    }
    *held = steps[way & 3](job, way >> 2, depth, replaced);
    if (r % 8 == 0) *held = __atomic_exchange_n(&handed[r >> 20 & 63], *held, __ATOMIC_ACQ_REL);
  }
  for (int i = 0; i < HELD; i++)
    free(job->held[i]);
  return NULL;
}

int main(int argc, char **argv) {
  int threads = argc > 1 ? atoi(argv[1]) : 1;
  rounds = argc > 2 ? atol(argv[2]) : 1000000;
  static job_t jobs[THREADS_MAX];
  pthread_t made[THREADS_MAX];
  if (threads < 1 || threads > THREADS_MAX) return 2;
  for (int i = 0; i < threads; i++) {
    jobs[i].random = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1);
    if (threads > 1 && pthread_create(&made[i], NULL, work, &jobs[i])) return 1;
  }
  if (threads == 1) work(&jobs[0]);
  for (int i = 0; threads > 1 && i < threads; i++)
    pthread_join(made[i], NULL);
  for (int i = 0; i < 64; i++)
    free(handed[i]);
  return 0;
}
