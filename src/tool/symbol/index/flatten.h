/* SPDX-License-Identifier: MIT
 *
 * Resolves overlaps: afterwards each address has at most one line row, one innermost scope and one
 * symbol, each found by one binary search. All functions return false when memory runs out.
 */
#ifndef SONDE_SYMBOL_INDEX_FLATTEN_H
#define SONDE_SYMBOL_INDEX_FLATTEN_H

#include "symbol/index/facts.h"

/* From ADDRESS up to the next segment: the scope or symbol with the index ITEM - 1. ITEM 0: none.
 */
typedef struct segment_of {
  uint64_t address;
  uint32_t item;
} segment_of_t;

typedef struct segments {
  segment_of_t *items; /* ascending */
  size_t count, capacity;
} segments_t;

/* The innermost scope of each address. If two units cover the same code (identical code folding),
 * the scope that starts first wins, then the earlier unit. */
bool flatten_scopes(const facts_t *facts, segments_t *out);

/* The symbol of each address. Of symbols with the same address, these win in turn: one that does
 * not yield, the larger, the later in its table. A smaller symbol within a larger one has its own
 * range. A symbol of unknown size ends where the next one starts; within a sized symbol it is only
 * a label and is dropped. */
bool flatten_symbols(facts_t *facts, segments_t *out);

/* Sorts the rows so that sequences ascend and do not overlap. */
bool flatten_rows(facts_t *facts);

#endif
