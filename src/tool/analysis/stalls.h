/* SPDX-License-Identifier: MIT
 *
 * The stalls of a recording: the monitor's records joined to one stall each, with its time
 * attributed to samples and its cause named.
 */
#ifndef SONDE_ANALYSIS_STALLS_H
#define SONDE_ANALYSIS_STALLS_H

#include "sensor/stall/stall_label.h"
#include "analysis/texts.h"
#include "reader/reader.h"

/* One sample of the stalled thread. */
typedef struct stall_sample {
  uint64_t time;  /* ticks */
  uint32_t stack; /* 0: the stack could not be read */
  stall_observation_t seen;
  uint64_t weight_ns; /* time that the sample represents, without waiting for a CPU */
  uint32_t owner;     /* of the mutex that the thread waits for; 0: unknown, or no mutex */
  uint64_t address;   /* of the lock */
  const char *what;   /* the file or socket; "" */
} stall_sample_t;

/* WAITER waits for a lock that OWNER holds. */
typedef struct stall_lock {
  uint32_t waiter, owner;
  uint64_t address;
  char owner_state;
  bool in_cycle;
  uint32_t owner_stack; /* 0: unknown */
} stall_lock_t;

typedef struct stall {
  uint64_t number;
  uint32_t tid;
  const char *thread;            /* its name */
  uint64_t start, detected, end; /* ticks */
  bool open;                     /* the recording has no end of it: the stall lasted longer */
  uint64_t threshold_ns;
  stall_ending_t ending;
  /* Parts of the stall's time that the program did not cause. */
  uint64_t stopped_ns, late_ns, runq_ns;
  stall_sample_t *samples;
  size_t sample_count, sample_capacity;
  stall_lock_t *locks;
  size_t lock_count, lock_capacity;
  uint64_t length_ns; /* total_ns less stopped_ns, late_ns and runq_ns */
  uint64_t total_ns;  /* from start to end */
  stall_totals_t totals;
  stall_label_t label;
} stall_t;

/* A thread that is a loop, with its count of iterations. */
typedef struct stall_loop {
  uint32_t tid;
  uint64_t iterations;
} stall_loop_t;

typedef struct stalls {
  stall_t *items;
  size_t count, capacity;
  stall_loop_t *loops;
  size_t loop_count, loop_capacity;
  const char *unsampled[4]; /* texts: ways of waiting that the monitor cannot see */
  size_t unsampled_count;
  size_t retracted; /* stalls that were idle waits of a loop with another wait site */
  size_t joining;   /* stalls that were pthread_join after the end of the loop */
  uint64_t bad;     /* records that violate the format */
  text_copy_t *texts;
} stalls_t;

/* Adds an event to STALLS, which begin as zeros. Ignores events that do not concern stalls. False
 * when memory runs out. */
bool stalls_add(stalls_t *stalls, const record_event_t *event);

/* Computes lengths, weights and labels, and removes false stalls. Call it once, after the last
 * event. */
void stalls_finish(stalls_t *stalls, const reader_t *reader);
void stalls_free(stalls_t *stalls);

#endif
