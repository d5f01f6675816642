/* SPDX-License-Identifier: MIT
 *
 * Replays the allocations of a recording: what is live at the end, what was live at the peak, and
 * what was never freed, by stack. One pass. Memory is bounded by the live blocks and the distinct
 * stacks, not by the length of the recording. Stacks that differ only in the addresses of their
 * libraries count as one stack (analysis/stack_dedup.h).
 */
#ifndef SONDE_ANALYSIS_MALLOC_REPLAY_H
#define SONDE_ANALYSIS_MALLOC_REPLAY_H

#include "analysis/malloc/live_set.h"
#include "analysis/stack_dedup.h"
#include "base/ids.h"
#include "reader/reader.h"

/* Blocks and bytes. During the replay, counts of blocks are in 1/WEIGHT_ONE. */
typedef struct counts {
  uint64_t count, bytes;
} counts_t;

static inline void counts_add(counts_t *to, counts_t more) {
  to->count += more.count;
  to->bytes += more.bytes;
}

/* The totals of one stack. Fields that an event changes come first, in one cache line. */
typedef struct stack_totals {
  uint64_t changed;   /* sequence number of the last change of `live` */
  counts_t live;      /* at the end of the window */
  counts_t allocated; /* in the window */
  uint64_t frees;     /* blocks that calls from this stack freed */
  uint64_t temporary; /* allocations that the thread's next event freed */
  uint32_t stack;     /* its id */
  counts_t at_peak;   /* when all stacks together had most bytes live */
  counts_t at_start;  /* at the start of the window */
} stack_totals_t;

static inline void stack_totals_add(stack_totals_t *to, const stack_totals_t *more) {
  counts_add(&to->allocated, more->allocated);
  counts_add(&to->live, more->live);
  counts_add(&to->at_peak, more->at_peak);
  counts_add(&to->at_start, more->at_start);
  to->temporary += more->temporary;
  to->frees += more->frees;
}

typedef struct thread_totals {
  uint32_t stream;
  counts_t allocated;
  counts_t live; /* of its allocations, at the end of the window */
  uint64_t frees;
  uint64_t last_allocated; /* the address that its last event allocated; 0: none */
  uint32_t last_stack;     /* index of that event's stack */
} thread_totals_t;

/* Class n counts blocks of 2^n … 2^(n+1) - 1 bytes; the last has no end. */
#define SIZE_CLASSES 49
typedef struct size_totals {
  counts_t allocated, live;
} size_totals_t;

/* A free of a block that is not live. */
typedef struct invalid_free {
  uint64_t time, address;
  uint32_t stack, stream;
  bool twice; /* the block was freed before and not allocated again since */
} invalid_free_t;

#define INVALID_FREES_KEPT 16

typedef struct replay {
  reader_t *reader;
  /* Not 0: blocks were sampled, one per this many bytes, and all amounts are estimates
   * (analysis/malloc/estimate.h). A realloc is then recorded as a free and an allocation, and
   * temporary allocations are unknown. */
  uint64_t sample_bytes;
  uint64_t events;    /* recorded calls */
  counts_t allocated; /* with reallocs, each with its new size */
  uint64_t frees, reallocs, temporary;
  counts_t live, at_peak, at_start;
  uint64_t peak_time, first_time, last_time; /* ticks */

  /* Sequence number of the current step and of the peak's. An event is one or two steps. */
  uint64_t seq, peak_seq;

  uint64_t unknown_frees;      /* of addresses never allocated */
  uint64_t double_frees;       /* of blocks freed before */
  uint64_t prerecording_frees; /* of blocks allocated before their recording began */
  uint32_t mode;               /* the current RECORD_… bits */
  uint32_t modes;              /* those of all modes so far */
  uint32_t blocks_mode;        /* the last one that records blocks */
  bool incomplete;             /* blocks were not recorded from the start, or not all the time */
  bool has_gaps; /* events are missing, so a freed block may have been allocated again */
  uint64_t switches, snapshots;     /* changes of mode; snapshots of the mode `live` */
  uint64_t unknown_before_snapshot; /* from the last snapshot; part of prerecording_frees */
  uint64_t untracked;               /* blocks that were live when their recording was interrupted */
  uint64_t blocks_until;            /* ticks: blocks were recorded up to here; 0: to the end */
  uint64_t address_reuses; /* allocations at a live address: the old block counts as freed */
  invalid_free_t invalid_frees[INVALID_FREES_KEPT];
  uint32_t invalid_free_count;

  stack_totals_t *stacks;
  size_t stack_count, stack_capacity;
  stack_dedup_t *dedup;
  ids_t stack_ids; /* the indices of their totals */

  thread_totals_t *threads; /* by stream */
  size_t thread_count;
  size_totals_t sizes[SIZE_CLASSES];
  live_set_t blocks;

  /* Of a summary: the checkpoints that the window was moved to, in ticks. */
  uint64_t window_from, window_to;

  uint64_t *freed; /* a cache of freed addresses, to distinguish double from unknown frees */

  const struct replay_options *options; /* during the replay */
  uint64_t now;                         /* ticks of the current event */
} replay_t;

/* How a block begins or ceases to be live. */
typedef enum replay_change {
  REPLAY_ALLOCATED,     /* or found in a snapshot */
  REPLAY_FREED,         /* also by realloc; or no longer tracked */
  REPLAY_FREED_AT_ONCE, /* by the next event of the thread that allocated it */
} replay_change_t;

typedef struct replay_options {
  uint64_t from_ns, to_ns; /* the window; to_ns 0: to the end */

  /* The window begins, or ends, at the first marker with this name, at its position in the order of
   * events; NULL: at from_ns, to_ns. With markers, from_ns and to_ns must be the markers' times.
   * These times are not precise enough by themselves, because other events may have the same tick.
   * Both markers are in the window. */
  const char *from_marker, *to_marker;

  /* Called with each event of the window that is not an allocation or free: samples, with the first
   * of equal stacks, and extended events. Returns false when memory runs out. May be NULL. */
  bool (*other)(void *context, const record_event_t *event);
  void *other_context;

  /* Called every interval_ns, before the next event, until it returns false. Counts are in
   * 1/WEIGHT_ONE. May be NULL. */
  bool (*on_interval)(void *context, const replay_t *replay, uint64_t time);
  void *on_interval_context;
  uint64_t interval_ns;

  /* Called after each change of the totals of live blocks, also before the window. A block that
   * ceases to be live is still in `blocks`. The block's
   * `stack` is an index of replay->stacks. TIME is in ticks. May be NULL. */
  void (*on_block)(void *context, const replay_t *replay, const live_block_t *block, uint64_t time,
                   replay_change_t change);
  void *on_block_context;

  /* A set in which on_block looks up the blocks: its places are prefetched, too. May be NULL. */
  const live_set_t *fetched;

  /* Blocks that were live before the first event: `stack` is the id of a stack. */
  const live_block_t *carried;
  size_t carried_count;

  void (*progress)(void *context, uint64_t done, uint64_t total);
  void *progress_context;
} replay_options_t;

/* Replays RECORDING into *OUT. 0 or SONDE_ENOMEM. */
int replay_run(replay_t *out, reader_t *recording, const replay_options_t *options);
void replay_free(replay_t *replay);

/* ---- for the replay itself, and summary_read, which fills a replay without events ----------- */

/* For replay_stack. */
stack_totals_t *replay_new_stack(replay_t *replay, uint32_t id);

/* The totals of a stack or a thread, added when they are new. NULL when memory runs out. A result
 * is valid until the next call. */
static inline stack_totals_t *replay_stack(replay_t *replay, uint32_t id) {
  uint32_t number = ids_find(&replay->stack_ids, id);
  return LIKELY(number) ? &replay->stacks[number - 1] : replay_new_stack(replay, id);
}
thread_totals_t *replay_thread(replay_t *replay, uint32_t stream);

/* Adds the `carried` blocks of the options, which count as live and not as allocated. False: out of
 * memory. For replay_run. */
bool replay_add_carried(replay_t *replay);

/* The first tick that is not before NS. */
uint64_t replay_tick(const reader_t *reader, uint64_t ns);

#endif
