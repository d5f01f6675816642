/* SPDX-License-Identifier: MIT
 *
 * Stalls by name: the function that held each one up, and equal ones as one entry.
 *
 * Two stalls are equal when the same function of the same library held them up for the same reason:
 * by name, so the entry of another run, at other addresses, is the same one and has the same id.
 */
#ifndef SONDE_REPORT_SECTIONS_STALL_NAMES_H
#define SONDE_REPORT_SECTIONS_STALL_NAMES_H

#include "analysis/stalls.h"
#include "report/report.h"

typedef struct named_stall {
  const stall_t *stall;
  const frame_name_t *culprit; /* NULL: no stack of it could be read */
  const frame_name_t *via;     /* what it called when that took the time: of a system library */
  const frame_name_t *late;    /* whom the one stack at the threshold would have named */
  double share;                /* of the turn's time that is below the culprit, 0 … 1 */
  const stall_sample_t *worst; /* the sample that stands for the most time below the culprit */
  const char *call, *what;     /* that it was blocked in, most of all; "" */
} named_stall_t;

typedef struct stall_entry {
  uint64_t id; /* the same in every run */
  const named_stall_t *worst;
  size_t count;
  uint64_t total_ns, first, last; /* FIRST and LAST: when they began, ticks */
  bool open;                      /* one of them has not ended */
} stall_entry_t;

typedef struct stall_entries {
  named_stall_t *stalls;
  stall_entry_t *items; /* most time first */
  size_t count;
  uint64_t total_ns, max_ns;
} stall_entries_t;

/* False without memory. */
bool stall_entries_make(stall_entries_t *out, const report_t *report, const stalls_t *stalls);
void stall_entries_free(stall_entries_t *entries);

#endif
