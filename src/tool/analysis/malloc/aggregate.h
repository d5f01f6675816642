/* SPDX-License-Identifier: MIT
 *
 * Measures of stacks, rankings by a measure, and totals of stacks aggregated by function or by
 * library.
 */
#ifndef SONDE_ANALYSIS_MALLOC_AGGREGATE_H
#define SONDE_ANALYSIS_MALLOC_AGGREGATE_H

#include "analysis/malloc/replay.h"
#include "base/hash.h"

/* What a report ranks by. */
typedef enum measure {
  MEASURE_PEAK,      /* bytes live at the peak */
  MEASURE_LIVE,      /* bytes live at the end: never freed */
  MEASURE_ALLOCATED, /* bytes allocated in the window */
  MEASURE_TEMPORARY, /* allocations that the thread's next event freed */
  MEASURE_GROWTH,    /* bytes live at the end less those at the start of the window */
  MEASURE_COUNT,
} measure_t;

const char *measure_name(measure_t measure);

/* The bytes (of MEASURE_TEMPORARY: allocations) of S; growth may be negative. */
int64_t measure_of(const stack_totals_t *s, measure_t measure);
counts_t counts_of(const stack_totals_t *s, measure_t measure);

/* Sets *OUT to the indexes of REPLAY's stacks with a MEASURE other than 0, largest first. Returns
 * their number, -1 when memory runs out. The caller frees *OUT. */
ptrdiff_t rank_stacks(const replay_t *replay, measure_t measure, uint32_t **out);

/* The same of the threads that allocated or freed, by allocated bytes. */
ptrdiff_t rank_threads(const replay_t *replay, uint32_t **out);

/* Allocations by the depth of their stack, in frames. The last element counts deeper ones too. */
#define DEPTHS 129
typedef struct depths {
  uint64_t allocations[DEPTHS];
  uint64_t complete;  /* allocations whose stack reaches the thread's first frame */
  uint64_t undefined; /* allocations whose stack is not in the recording */
  uint32_t deepest;
} depths_t;

void depths_of(const replay_t *replay, depths_t *out);

/* The depth that SHARE (0 … 1) of the allocations do not exceed. */
uint32_t depths_quantile(const depths_t *depths, double share);

/* The totals of all stacks with one key and home; their stack is the first one. */
typedef struct aggregate_row {
  const char *key, *home;
  stack_totals_t totals;
  uint32_t stacks;
} aggregate_row_t;

typedef struct aggregate {
  aggregate_row_t *items;
  size_t count, capacity;
  hash_index_t index;
} aggregate_t;

/* Adds S to the row of KEY in HOME, strings that outlive AGGREGATE and are compared by their text:
 * a function and its library or file. False when memory runs out. */
bool aggregate_add(aggregate_t *aggregate, const char *key, const char *home,
                   const stack_totals_t *s);

/* Sorts the rows, largest MEASURE first. Call it once, after the last aggregate_add. */
void aggregate_rank(aggregate_t *aggregate, measure_t measure);
void aggregate_free(aggregate_t *aggregate);

#endif
