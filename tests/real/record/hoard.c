/* SPDX-License-Identifier: MIT
 *
 * Threads that hold a great many blocks at once, got by every function of the allocator's; each
 * moves and frees some of its own, and some that its neighbour got, and then all wait. usage: hoard
 * THREADS COUNT SEED; it says how many blocks are held and how many bytes they are, and ends with
 * its input.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct member {
  pthread_t thread;
  uint64_t seed;
  void **block;
  size_t *size;
} member_t;

static pthread_barrier_t all;
static member_t *members;
static long threads, count;

static uint64_t chance(member_t *m, uint64_t below) {
  m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
  return (m->seed >> 33) % below;
}

static void get(member_t *m, long i) {
  size_t size = 16 + chance(m, chance(m, 50) ? 200 : 9000);
  void *p = NULL;
  switch (chance(m, 5)) {
  case 0: p = calloc(1, size); break;
  case 1: p = realloc(NULL, size); break;
  case 2: p = posix_memalign(&p, 64, size) ? NULL : p; break;
  case 3: p = aligned_alloc(32, size = (size + 31) / 32 * 32); break;
  default: p = malloc(size);
  }
  if (!p) abort();
  memset(p, (int)size, size);
  m->block[i] = p;
  m->size[i] = size;
}

static void move(member_t *m, long i) {
  unsigned char was = *(unsigned char *)m->block[i];
  m->size[i] = 16 + chance(m, 400);
  if (!(m->block[i] = realloc(m->block[i], m->size[i])) || *(unsigned char *)m->block[i] != was)
    abort();
}

static void *live(void *context) {
  member_t *m = context, *next = &members[(m - members + 1) % threads];
  for (long i = 0; i < count; i++)
    get(m, i);
  pthread_barrier_wait(&all);
  for (long i = 0; i < count; i += 10) {
    free(next->block[i]);
    next->block[i] = NULL;
  }
  pthread_barrier_wait(&all);
  for (long i = 1; i < count; i += 7)
    if (m->block[i]) move(m, i);
  for (long i = 0; i < count; i += 20)
    get(m, i);
  pthread_barrier_wait(&all);
  pthread_barrier_wait(&all);
  return NULL;
}

/* stdio would allocate a buffer at the very moment when what is live is counted. */
static void say(long held, size_t bytes) {
  char line[64];
  int length = snprintf(line, sizeof line, "%ld %zu\n", held, bytes);
  if (write(1, line, (size_t)length) != length) abort();
}

int main(int argc, char **argv) {
  char end;
  long held = 0;
  size_t bytes = 0;
  if (argc < 4) return 2;
  threads = atol(argv[1]);
  count = atol(argv[2]);
  members = calloc((size_t)threads, sizeof *members);
  pthread_barrier_init(&all, NULL, (unsigned)threads + 1);
  for (long t = 0; t < threads; t++) {
    members[t].seed = strtoull(argv[3], NULL, 0) + (uint64_t)t;
    members[t].block = calloc((size_t)count, sizeof(void *));
    members[t].size = calloc((size_t)count, sizeof(size_t));
  }
  for (long t = 0; t < threads; t++)
    pthread_create(&members[t].thread, NULL, live, &members[t]);
  for (int phase = 0; phase < 3; phase++)
    pthread_barrier_wait(&all);
  for (long t = 0; t < threads; t++)
    for (long i = 0; i < count; i++) {
      held += members[t].block[i] != NULL;
      bytes += members[t].block[i] ? members[t].size[i] : 0;
    }
  say(held, bytes);
  (void)!read(0, &end, 1);
  pthread_barrier_wait(&all);
  for (long t = 0; t < threads; t++)
    pthread_join(members[t].thread, NULL);
  return 0;
}
