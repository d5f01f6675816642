/* SPDX-License-Identifier: MIT
 *
 * From overlapping claims to disjoint ones: after this, an address has one line row, one innermost
 * scope and one symbol, each found by one binary search.
 */
#ifndef SONDE_SYMBOL_INDEX_FLATTEN_H
#define SONDE_SYMBOL_INDEX_FLATTEN_H

#include "symbol/index/facts.h"

/* From ADDRESS to the next segment's address, ITEM - 1 is the index of what is there; 0: nothing.
 */
typedef struct segment_of {
  uint64_t address;
  uint32_t item;
} segment_of_t;

typedef struct segments {
  segment_of_t *items; /* ascending */
  size_t count, room;
} segments_t;

/* The innermost scope of every address. Of two units that claim the same code (identical code
 * folding), the one that starts first, then the earlier one, has it. */
bool flatten_scopes(const facts_t *facts, segments_t *out);

/* The symbol of every address. Of symbols with one address, one that does not yield goes before one
 * that does, then the larger, then the later in its table; a smaller symbol within a larger one has
 * its own range. A symbol of unknown size ends where the next one starts,
 * and is a mere label when it lies within a sized one. */
bool flatten_symbols(facts_t *facts, segments_t *out);

/* Sorts the rows so that sequences ascend and do not overlap. */
bool flatten_rows(facts_t *facts);

#endif
