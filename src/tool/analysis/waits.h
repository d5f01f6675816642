/* SPDX-License-Identifier: MIT
 *
 * How long threads waited, for which lock, call or descriptor, and for which other thread: the
 * wall-clock sampler's records, added up over the whole recording by target.
 *
 * The time that a thread was blocked, which the kernel counts, is divided among the thread's
 * samples (analysis/wall.h).
 */
#ifndef SONDE_ANALYSIS_WAITS_H
#define SONDE_ANALYSIS_WAITS_H

#include "analysis/wall.h"
#include "base/hash.h"

/* A thread's waits for one target. After waits_rank: at all of its stacks. */
typedef struct wait_sum {
  uint32_t tid;
  const char *call,
      *what; /* the system call, what its descriptor refers to or the lock's name; "" */
  bool is_mutex;
  uint32_t owner;   /* the thread that held the mutex; 0: unknown, or no mutex */
  uint64_t address; /* of the futex; 0: none */
  uint32_t stack;   /* where the thread waited longest; 0: the stack could not be read */
  uint64_t ns, samples;
} wait_sum_t;

/* A mutex and all waits for it. */
typedef struct wait_lock {
  const char *name; /* "GIL"; "": it has none, but its variable may have one */
  uint64_t address;
  uint64_t ns;
  size_t waiters, owners; /* different threads */
  uint32_t owner;         /* the thread that held it for most of that time; 0: unknown */
  uint64_t owner_ns;      /* waits while that thread held it */
} wait_lock_t;

typedef struct waits {
  wait_sum_t *items; /* most time first */
  size_t count, capacity;
  hash_index_t index; /* of the items, until waits_rank */
  wait_lock_t *locks; /* most time first */
  size_t lock_count, lock_capacity;
  uint64_t ns, lock_ns;
  wall_t wall; /* the threads */
} waits_t;

/* Adds an event to WAITS, which begin as zeros except wall.reader. Ignores events of other sensors.
 * False when memory runs out. */
bool waits_add(waits_t *waits, const record_event_t *event);

/* Attributes and sorts the time. Call it once, after the last event. False when memory runs out. */
bool waits_rank(waits_t *waits);

/* "" when the thread has no name. */
const char *waits_thread_name(const waits_t *waits, uint32_t tid);
void waits_free(waits_t *waits);

#endif
