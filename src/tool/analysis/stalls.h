/* SPDX-License-Identifier: MIT
 *
 * The stalls of a recording, put together from the recorder's records.
 */
#ifndef SONDE_ANALYSIS_STALLS_H
#define SONDE_ANALYSIS_STALLS_H

#include "analysis/stall_label.h"
#include "reader/reader.h"

/* What was seen of the stalled thread at one moment. */
typedef struct stall_sample {
  uint64_t time;  /* ticks */
  uint32_t stack; /* 0: it could not be read */
  stall_observation_t seen;
  uint64_t weight_ns; /* how much of the turn it stands for, without waiting for a CPU */
  uint32_t owner;     /* of the mutex the thread waits for; 0: not known, or no mutex */
  uint64_t address;   /* of the lock */
  const char *what;   /* the file or socket; "" */
} stall_sample_t;

/* WAITER waits for a lock that OWNER holds. */
typedef struct stall_lock {
  uint32_t waiter, owner;
  uint64_t address;
  char owner_state;
  bool in_cycle;
  uint32_t owner_stack; /* 0: not known */
} stall_lock_t;

typedef struct stall {
  uint64_t number;
  uint32_t tid;
  const char *thread;            /* its name */
  uint64_t start, detected, end; /* ticks */
  bool open;                     /* its end is not in the recording: it lasted at least so long */
  uint64_t threshold_ns;
  stall_ending_t ending;
  uint64_t stopped_ns, late_ns, runq_ns; /* of its time, and not the program's doing */
  stall_sample_t *samples;
  size_t sample_count, sample_room;
  stall_lock_t *locks;
  size_t lock_count, lock_room;
  uint64_t length_ns; /* without what was not the program's doing */
  uint64_t total_ns;  /* from its beginning to its end */
  stall_totals_t totals;
  stall_label_t label;
} stall_t;

typedef struct stall_loop {
  uint32_t tid;
  uint64_t iterations;
} stall_loop_t;

typedef struct stalls {
  stall_t *items;
  size_t count, room;
  stall_loop_t *loops;
  size_t loop_count, loop_room;
  const char *unsampled[4]; /* ways of waiting that are not seen, in words */
  size_t unsampled_count;
  size_t retracted; /* turned out to be loops that wait elsewhere */
  uint64_t bad;     /* records that break the rules */
  struct stall_text *texts;
} stalls_t;

/* Takes an event of a recording into STALLS, which begin as zeros; others than those of stalls are
 * passed over. False without memory. */
bool stalls_add(stalls_t *stalls, const record_event_t *event);

/* All events are there: lengths, weights, labels. False turns are taken out. */
void stalls_finish(stalls_t *stalls, const reader_t *reader);
void stalls_free(stalls_t *stalls);

#endif
