/* SPDX-License-Identifier: MIT
 *
 * What changed between two recordings of a program, by stack.
 *
 * Two stacks are the same when their functions are, by name, from the innermost to the outermost:
 * that holds over address randomisation, over rebuilds, and over a function that is inlined in one
 * build and called in the other. Of a function that has no name only its library counts, and
 * several in a row count as one. Suffixes that compilers give to copies of a function (.part.0,
 * .cold, .isra.0, .constprop.0) are left out.
 */
#ifndef SONDE_REPORT_DIFF_H
#define SONDE_REPORT_DIFF_H

#include "report/report.h"

typedef struct diff_row {
  uint64_t key[2];       /* a hash of the names */
  const char *function;  /* that owns it */
  int64_t before, after; /* by the measure */
  int64_t count_before, count_after;
  uint32_t stack; /* one such stack … */
  bool in_old;    /* … of the old recording, else of the new one */
} diff_row_t;

typedef struct diff {
  diff_row_t *rows; /* those that changed most first; unchanged ones are left out */
  size_t count, room;
  size_t *slots;
  size_t mask;
  int64_t before, after;
} diff_t;

/* Adds a stack of REPORT's recording. False without memory. */
bool diff_add(diff_t *diff, const report_t *report, bool old, uint32_t stack, int64_t weight,
              int64_t count);

/* Ranks what was added. */
void diff_finish(diff_t *diff);
void diff_free(diff_t *diff);

/* The rows summed up by the function that owns them, ranked; a diff of its own. False without
 * memory. */
bool diff_by_function(const diff_t *diff, diff_t *out);

#endif
