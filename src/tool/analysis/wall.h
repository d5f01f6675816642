/* SPDX-License-Identifier: MIT
 *
 * All of the threads' time: where they were blocked, as the wall-clock sampler saw it, and where
 * they ran, as the ticks of their CPU time tell.
 *
 * How long a thread was there, ran, and waited for a CPU is known exactly from the kernel; what is
 * left, it was blocked. Its ticks share the time it ran, its samples the time it was blocked: on a
 * busy machine a sampler comes late, and just when threads had to wait for a CPU as it had. What
 * they waited for a CPU has no stack. A kernel that does not count (no CONFIG_SCHED_INFO) leaves
 * the time between the samples.
 */
#ifndef SONDE_ANALYSIS_WALL_H
#define SONDE_ANALYSIS_WALL_H

#include "analysis/stack_dedup.h"
#include "base/hash.h"
#include "reader/body.h"
#include "reader/reader.h"

#define WALL_CALLS_MAX 1024u /* Linux has some 400; others have no name */

typedef struct wall_thread {
  uint32_t tid;
  const char *name;
  uint64_t seen_ns, run_ns, runq_ns, blocked_ns; /* there; of it on a CPU, waiting for one, … */
  uint64_t samples, ticks;                       /* that found it blocked; of its CPU time */
  uint64_t sampled_ns;                           /* that these looks stand for */
} wall_thread_t;

/* Where threads were: at a stack, in a system call, or on a CPU. */
typedef struct wall_place {
  uint32_t tid;     /* 0: all threads together */
  uint32_t stack;   /* 0: it could not be read */
  const char *call; /* "": in none; NULL: on a CPU */
  uint64_t ns, samples;
} wall_place_t;

typedef struct wall_places {
  wall_place_t *items;
  size_t count, room;
  hash_index_t slots; /* of the items, by thread, stack and call */
} wall_places_t;

typedef struct wall {
  wall_thread_t *threads; /* most time first, once wall_rank is done */
  size_t thread_count, thread_room;
  hash_index_t thread_slots;         /* by tid */
  const char *calls[WALL_CALLS_MAX]; /* the names that places have */
  unsigned call_count;
  wall_places_t places;               /* of all threads together, likewise */
  wall_places_t parts;                /* of each thread, before */
  uint64_t unread_samples, unread_ns; /* that found a blocked thread which could not be read */
  uint64_t bad;                       /* records that break the rules */
  bool recorded;                      /* there are records of the sampler at all */
  struct wall_name *names;
  stack_dedup_t *dedup; /* of the looks; NULL until there is one */
  const reader_t *reader;
} wall_t;

/* A record of the sampler: where a thread was at looks that followed each other. */
typedef struct wall_period {
  uint32_t tid, stack;
  uint64_t ns, samples;
  const uint8_t *call, *what; /* the system call, what its descriptor is: in the record */
  uint64_t call_size, what_size;
  int fd;           /* -1: none */
  bool is_mutex;    /* it waited for a mutex … */
  uint32_t owner;   /* … of this thread; 0: not known */
  uint64_t address; /* of the futex; 0: none */
} wall_period_t;

/* B is the body of an EXTENDED_WALL; b->short_of tells whether it was one. */
wall_period_t wall_period(body_t *b);

/* Takes an event into WALL, which begins as zeros but for `reader`; others are passed over. False
 * without memory. */
bool wall_add(wall_t *wall, const record_event_t *event);

/* Once, when all events are there: shares the time out and
 * puts threads and places in order. False without memory. */
bool wall_rank(wall_t *wall);
void wall_free(wall_t *wall);

#endif
