/* SPDX-License-Identifier: MIT
 *
 * Replays the allocations of a recording: what is live, what was at the peak, what was never freed,
 * by stack. One pass; memory is bounded by the live blocks and the distinct stacks, never by the
 * length of the recording. Stacks that differ only in where their libraries lay are one.
 */
#ifndef SONDE_ANALYSIS_MALLOC_REPLAY_H
#define SONDE_ANALYSIS_MALLOC_REPLAY_H

#include "analysis/malloc/live_set.h"
#include "analysis/stack_dedup.h"
#include "base/hash.h"
#include "reader/reader.h"

/* Blocks and bytes. While the replay runs counts are in 1/WEIGHT_ONE. */
typedef struct counts {
  uint64_t count, bytes;
} counts_t;

/* What one stack did; what an event changes stands first, in one cache line. */
typedef struct stack_totals {
  uint64_t changed;   /* number of the moment that last changed `live` */
  counts_t live;      /* at the end of the window */
  counts_t allocated; /* in the window */
  uint64_t frees;     /* calls that freed, from this stack */
  uint64_t temporary; /* allocations that the thread's very next event freed */
  uint32_t stack;     /* its id */
  counts_t at_peak;   /* when all stacks together had most bytes live */
  counts_t at_start;  /* at the start of the window */
} stack_totals_t;

typedef struct thread_totals {
  uint32_t stream;
  counts_t allocated;
  counts_t live; /* of what it allocated, at the end of the window */
  uint64_t frees;
  uint64_t last_allocated; /* the address its last event gave, else 0 */
  uint32_t last_stack;     /* index of that event's stack */
} thread_totals_t;

#define SIZE_CLASSES 49 /* of 2^n … 2^(n+1) - 1 bytes, the last one open */
typedef struct size_totals {
  counts_t allocated, live;
} size_totals_t;

/* A free that nothing explains. */
typedef struct invalid_free {
  uint64_t time, address;
  uint32_t stack, stream;
  bool twice; /* the block had been freed before, not given out since */
} invalid_free_t;

#define INVALID_FREES_KEPT 16

/* Where the totals of a stack are. */
typedef struct stack_entry {
  uint32_t stack, index;
} stack_entry_t;

typedef struct replay {
  reader_t *reader;
  bool sampled;       /* some events stand for others: counts and bytes are estimates */
  uint64_t events;    /* calls that were recorded */
  counts_t allocated; /* reallocs included, each with its new size */
  uint64_t frees, reallocs, temporary;
  counts_t live, at_peak, at_start;
  uint64_t peak_time, first_time, last_time; /* ticks */
  uint64_t seq, peak_seq; /* numbers of the last step and of the peak's; an event has one or two */
  uint64_t unknown_frees, double_frees; /* of blocks nothing is known of; freed twice */
  uint64_t prerecording_frees;  /* of blocks given out before recording them was switched on */
  uint32_t mode;                /* what is recorded at this moment: RECORD_… */
  bool incomplete;              /* blocks were not recorded from the start, or not all the time */
  uint64_t switches, snapshots; /* changes of mode; snapshots of the mode `live` */
  uint64_t unknown_before_snapshot; /* as the last snapshot says, part of prerecording_frees */
  uint64_t untracked;               /* blocks that were live when recording them was interrupted */
  uint64_t blocks_until;            /* ticks: from then on none were recorded; 0: they were */
  uint64_t address_reuses; /* blocks given out that were not seen to be freed: the old ones count as
                              freed */
  invalid_free_t invalid_frees[INVALID_FREES_KEPT];
  uint32_t invalid_free_count;
  stack_totals_t *stacks;
  size_t stack_count, stack_room;
  stack_dedup_t *dedup;
  uint32_t *stack_direct; /* for ids below this count, as ids are handed out in order, */
  uint32_t direct_count;  /* an array of index + 1; for the others */
  stack_entry_t *known;   /* a table, by id */
  size_t known_count, known_room;
  hash_index_t stack_slots;
  thread_totals_t *threads; /* by stream */
  size_t thread_count;
  size_totals_t sizes[SIZE_CLASSES];
  live_set_t blocks;
  uint64_t window_from,
      window_to;   /* of a summary: the moments that the window was moved to, ticks */
  uint64_t *freed; /* addresses freed of late, to tell twice from unknown */
} replay_t;

typedef struct replay_options {
  uint64_t from_ns, to_ns; /* the window; to_ns 0: to the end */
  /* Names of marks, or NULL: the window begins or ends at the first mark called so, at its place in
   * the order of the events. Its time, which from_ns or to_ns then is, does not tell which of the
   * same tick's events came before it. Both marks are in the window. */
  const char *from_marker, *to_marker;
  /* For each event of the window that is no allocation or free: samples, with the first of the
   * stacks that are the same, and extended ones. False: no memory. NULL: they are passed over. */
  bool (*other)(void *context, const record_event_t *event);
  void *other_context;
  /* Every so many ns, before the event that comes then, until it returns false. Counts are in
   * 1/WEIGHT_ONE. */
  bool (*on_interval)(void *context, const replay_t *replay, uint64_t time);
  void *on_interval_context;
  uint64_t interval_ns;
  void (*progress)(void *context, uint64_t done, uint64_t total);
  void *progress_context;
} replay_options_t;

/* Replays RECORDING into *OUT. Returns 0 or SONDE_ENOMEM. */
int replay_run(replay_t *out, reader_t *recording, const replay_options_t *options);
void replay_free(replay_t *replay);

#endif
