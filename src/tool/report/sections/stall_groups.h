/* SPDX-License-Identifier: MIT
 *
 * Attributes each stall to the function that used its time, and groups equal stalls.
 *
 * Two stalls are equal if the same function of the same library caused them for the same reason.
 * Names decide, so a group has the same id in every run.
 */
#ifndef SONDE_REPORT_SECTIONS_STALL_GROUPS_H
#define SONDE_REPORT_SECTIONS_STALL_GROUPS_H

#include "analysis/stalls.h"
#include "report/report.h"

typedef struct attributed_stall {
  const stall_t *stall;
  /* The function that used most of its time; NULL: no stack could be read. */
  const frame_name_t *hot;
  /* A system function that HOT called and that used the time; else NULL. */
  const frame_name_t *callee;
  /* The owner of the first stack after the threshold: what a single capture would show. */
  const frame_name_t *at_threshold;
  double share;                /* of the iteration's time in HOT and below, 0 to 1 */
  const stall_sample_t *worst; /* the sample for the most time in HOT and below */
  const char *call, *what;     /* the call that blocked it longest, and its file or socket; "" */
} attributed_stall_t;

typedef struct stall_group {
  uint64_t id; /* the same in every run */
  const attributed_stall_t *worst;
  size_t count;
  uint64_t total_ns;
  uint64_t first, last; /* ticks at which the first and the last stall began */
  bool open;            /* one of them has not ended */
} stall_group_t;

typedef struct stall_groups {
  attributed_stall_t *stalls;
  stall_group_t *items; /* largest total time first */
  size_t count;
  uint64_t total_ns, max_ns;
} stall_groups_t;

/* Makes the groups of STALLS, which must outlive them. False: out of memory. */
bool stall_groups_make(stall_groups_t *out, const report_t *report, const stalls_t *stalls);

void stall_groups_free(stall_groups_t *groups);

#endif
