/* SPDX-License-Identifier: MIT
 *
 * The time of all threads: where they were blocked, from the wall-clock sampler, and where they
 * ran, from the ticks of their CPU time.
 *
 * The kernel counts exactly how long a thread existed, ran, and waited for a CPU; the rest of its
 * time it was blocked. A thread's running time is divided among its ticks, and its blocked time
 * among its samples. The intervals between samples would be wrong, because on a busy machine the
 * sampler is late whenever the threads, too, wait for a CPU. Waiting for a CPU has no stack. When
 * the kernel does not count
 * (no CONFIG_SCHED_INFO), the time between samples is used.
 */
#ifndef SONDE_ANALYSIS_WALL_H
#define SONDE_ANALYSIS_WALL_H

#include "analysis/stack_dedup.h"
#include "analysis/texts.h"
#include "base/hash.h"
#include "reader/body.h"
#include "reader/reader.h"

/* Names of system calls that are kept. Linux has some 400. */
#define WALL_CALLS_MAX 1024u

typedef struct wall_thread {
  uint32_t tid;
  const char *name;
  /* How long the thread existed; of this: on a CPU, waiting for a CPU, blocked. */
  uint64_t seen_ns, run_ns, runq_ns, blocked_ns;
  uint64_t samples;    /* that found the thread blocked */
  uint64_t ticks;      /* of its CPU time */
  uint64_t sampled_ns; /* time between these samples */
} wall_thread_t;

/* Where threads were: at a stack, in a system call or on a CPU. */
typedef struct wall_place {
  uint32_t tid;     /* 0: all threads */
  uint32_t stack;   /* 0: the stack could not be read */
  const char *call; /* "": in no system call; NULL: on a CPU */
  uint64_t ns, samples;
} wall_place_t;

typedef struct wall_places {
  wall_place_t *items;
  size_t count, capacity;
  hash_index_t index; /* of the items, by thread, stack and call */
} wall_places_t;

typedef struct wall {
  wall_thread_t *threads; /* most time first after wall_rank */
  size_t thread_count, thread_capacity;
  hash_index_t thread_index;         /* by tid */
  const char *calls[WALL_CALLS_MAX]; /* the names that places point to */
  unsigned call_count;
  wall_places_t places;               /* of all threads; most time first after wall_rank */
  wall_places_t parts;                /* of each thread, in the order of the events */
  uint64_t unread_samples, unread_ns; /* of blocked threads whose stack could not be read */
  uint64_t bad;                       /* records that violate the format */
  bool recorded;                      /* there are records of the sampler */
  bool is_ranked;
  text_copy_t *names;
  stack_dedup_t *dedup; /* of the samples' stacks; NULL before the first */
  const reader_t *reader;
} wall_t;

/* A record of the sampler: consecutive samples that found a thread at one place. */
typedef struct wall_period {
  uint32_t tid, stack;
  uint64_t ns, samples;
  /* The system call and what its descriptor refers to; both point into the record. */
  const uint8_t *call, *what;
  uint64_t call_size, what_size;
  int fd;           /* -1: none */
  bool is_mutex;    /* the thread waited for a mutex */
  uint32_t owner;   /* the thread that held the mutex; 0: unknown */
  uint64_t address; /* of the futex; 0: none */
} wall_period_t;

/* Decodes B, the body of an EXTENDED_WALL. Sets b->truncated when the body is damaged. */
wall_period_t wall_period(body_t *b);

/* Adds an event to WALL, which begins as zeros except `reader`. Ignores events of other sensors.
 * False when memory runs out. */
bool wall_add(wall_t *wall, const record_event_t *event);

/* Attributes the time and sorts threads and places. Call it once, after the last event. False when
 * memory runs out. */
bool wall_rank(wall_t *wall);
void wall_free(wall_t *wall);

#endif
