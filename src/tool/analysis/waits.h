/* SPDX-License-Identifier: MIT
 *
 * Who waited how long, for which lock, call or descriptor, and on whom: what the wall-clock sampler
 * saw of blocked threads, added up over the whole recording by what they waited for.
 *
 * The looks share the time that their thread was blocked, which the kernel knows (analysis/wall.h).
 */
#ifndef SONDE_ANALYSIS_WAITS_H
#define SONDE_ANALYSIS_WAITS_H

#include "base/hash.h"
#include "analysis/wall.h"

/* A thread's waits for one thing; once waits_rank is done, those of all its stacks together. */
typedef struct wait_sum {
  uint32_t tid;
  const char *call, *what; /* the system call, what its descriptor is; "" */
  bool is_mutex;
  uint32_t owner;   /* who held the mutex; 0: not known, or it is none */
  uint64_t address; /* of the futex; 0: it waited for none */
  uint32_t stack;   /* where it waited longest; 0: it could not be read */
  uint64_t ns, samples;
} wait_sum_t;

/* A mutex, and all that threads waited for it. */
typedef struct wait_lock {
  uint64_t address;
  uint64_t ns;
  size_t waiters, owners; /* different threads */
  uint32_t owner;         /* who held it for most of that time; 0: not known */
  uint64_t owner_ns;      /* of NS, while that one did */
} wait_lock_t;

typedef struct waits {
  wait_sum_t *items; /* most time first */
  size_t count, room;
  hash_index_t slots; /* of the items, while they are gathered */
  wait_lock_t *locks; /* most time first */
  size_t lock_count, lock_room;
  uint64_t ns, lock_ns;
  wall_t wall; /* the threads */
} waits_t;

/* Takes an event into WAITS, which begins as zeros but for wall.reader; others are passed over.
 * False without memory. */
bool waits_add(waits_t *waits, const record_event_t *event);

/* Once, when all events are there. False without memory. */
bool waits_rank(waits_t *waits);

/* "" when the thread has no name. */
const char *waits_thread_name(const waits_t *waits, uint32_t tid);
void waits_free(waits_t *waits);

#endif
