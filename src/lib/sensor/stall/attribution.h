/* SPDX-License-Identifier: MIT
 *
 * Who held a turn up, found in the program itself: stacks that were taken while it lasted, and the
 * culprit among them (stall_culprit.h).
 *
 * Used by one thread, the program's own monitor. No memory is asked for: there is room for the
 * turns of BLAMES threads at a time.
 */
#ifndef SONDE_SENSOR_STALL_ATTRIBUTION_H
#define SONDE_SENSOR_STALL_ATTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#define BLAMES        8
#define BLAME_SAMPLES 32
#define BLAME_DEPTH   256

typedef struct blame {
  bool taken;
  int count;
  struct {
    uint64_t time_ns;
    int depth;
    uintptr_t pcs[BLAME_DEPTH]; /* innermost first */
  } samples[BLAME_SAMPLES];
} blame_t;

/* Room for the samples of one turn; NULL when there is none. */
blame_t *blame_take(void);
void blame_give_back(blame_t *blame); /* which may be NULL */

/* The thread stood at PCS, COUNT of them, at TIME_NS. */
void blame_add(blame_t *blame, uint64_t time_ns, const uintptr_t *pcs, int count);

/* Of the turn from BEGAN_NS to NOW_NS: *PCS is the stack, from the culprit outward, of the sample
 * that stands for the most of it; *PERCENT what the culprit owned. Returns how many there are, 0:
 * no sample. They are in BLAME. */
int blame_find(const blame_t *blame, uint64_t began_ns, uint64_t now_ns, const uintptr_t **pcs,
               int *percent);

#endif
