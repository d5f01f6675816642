/* SPDX-License-Identifier: MIT
 *
 * What changed between two recordings of a program, by stack.
 *
 * Two stacks are equal if their functions have the same names, from the innermost to the outermost.
 * Address randomization, rebuilds and inlining therefore do not matter. Functions without a name
 * count by library, and several in a row as one. Suffixes of compiler-made copies (.part.0, .cold,
 * .isra.0, .constprop.0) are ignored.
 */
#ifndef SONDE_REPORT_DIFF_H
#define SONDE_REPORT_DIFF_H

#include "base/hash.h"
#include "report/report.h"

typedef struct diff_row {
  uint64_t key[2];       /* a hash of the names */
  const char *function;  /* the owner of the stack */
  int64_t before, after; /* by the measure */
  int64_t count_before, count_after;
  uint32_t stack; /* one of its stacks */
  bool in_old;    /* STACK is of the old recording, else of the new */
  bool nameless;  /* a function of it has no name */
} diff_row_t;

typedef struct diff {
  diff_row_t *rows; /* largest change first, once finished; without unchanged rows */
  size_t count, capacity;
  hash_index_t index; /* until diff_finish */
  int64_t before, after;
} diff_t;

/* The length of a function's name without the suffix of a copy. */
size_t diff_stable_length(const char *name);

/* Adds a stack of REPORT's recording. False: out of memory. */
bool diff_add(diff_t *diff, const report_t *report, bool old, uint32_t stack, int64_t weight,
              int64_t count);

/* Ranks the rows, after the last stack. */
void diff_finish(diff_t *diff);
void diff_free(diff_t *diff);

/* The share, from 0 to 1, of all changes that are of stacks with functions without a name. */
double diff_nameless(const diff_t *diff);

/* Sums the rows by owner into OUT and ranks them. False: out of memory. */
bool diff_by_function(const diff_t *diff, diff_t *out);

#endif
