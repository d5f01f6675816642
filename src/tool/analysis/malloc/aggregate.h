/* SPDX-License-Identifier: MIT
 *
 * Totals of stacks summed up by something they share: a function, a library.
 */
#ifndef SONDE_ANALYSIS_MALLOC_AGGREGATE_H
#define SONDE_ANALYSIS_MALLOC_AGGREGATE_H

#include "analysis/malloc/replay.h"

/* What a report ranks by. */
typedef enum measure {
  MEASURE_PEAK,      /* bytes live at the peak */
  MEASURE_LIVE,      /* bytes live at the end: never freed */
  MEASURE_ALLOCATED, /* bytes allocated in all */
  MEASURE_TEMPORARY, /* allocations freed by the thread's next call */
  MEASURE_GROWTH,    /* bytes live at the end less those at the start of the window */
  MEASURE_COUNT,
} measure_t;

const char *measure_name(measure_t measure);

/* What MEASURE says of S; growth may be negative. */
int64_t measure_of(const stack_totals_t *s, measure_t measure);
counts_t counts_of(const stack_totals_t *s, measure_t measure);

/* The indexes of REPLAY's stacks, largest MEASURE first, without those that have none of it.
 * Returns how many; *OUT is freed by the caller. -1 without memory. */
ptrdiff_t rank_stacks(const replay_t *replay, measure_t measure, uint32_t **out);

/* As above, the threads that did anything, those that allocated most first. */
ptrdiff_t rank_threads(const replay_t *replay, uint32_t **out);

/* How deep the stacks of allocations are. */
#define DEPTHS 129 /* frames; the last place holds deeper ones too */
typedef struct depths {
  uint64_t allocations[DEPTHS];
  uint64_t complete;  /* allocations whose stack reaches the thread's first frame */
  uint64_t undefined; /* whose stack is not in the recording */
  uint32_t deepest;
} depths_t;

void depths_of(const replay_t *replay, depths_t *out);

/* The depth that SHARE (0 … 1) of the allocations do not exceed. */
uint32_t depths_quantile(const depths_t *depths, double share);

typedef struct aggregate_row {
  const char *key;
  stack_totals_t totals; /* of all its stacks */
  uint32_t stacks;
} aggregate_row_t;

typedef struct aggregate {
  aggregate_row_t *items;
  size_t count, room;
  hash_index_t slots;
} aggregate_t;

/* Adds S to the group KEY, a string that outlives the groups and is compared by its text. */
bool aggregate_add(aggregate_t *groups, const char *key, const stack_totals_t *s);
void aggregate_rank(aggregate_t *groups, measure_t measure);
void aggregate_free(aggregate_t *groups);

#endif
