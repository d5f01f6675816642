/* SPDX-License-Identifier: MIT
 *
 * Who held a turn up, found in the program itself: stacks that were taken while it lasted, and the
 * culprit among them (stall_culprit.h).
 *
 * Used by one thread, the program's own monitor. No memory is asked for: there is room for the
 * turns of ATTRIBUTIONS threads at a time.
 */
#ifndef SONDE_SENSOR_STALL_ATTRIBUTION_H
#define SONDE_SENSOR_STALL_ATTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#define ATTRIBUTIONS        8
#define ATTRIBUTION_SAMPLES 32
#define ATTRIBUTION_DEPTH   256

typedef struct attribution {
  bool taken;
  int count;
  struct {
    uint64_t time_ns;
    int depth;
    uintptr_t pcs[ATTRIBUTION_DEPTH]; /* innermost first */
  } samples[ATTRIBUTION_SAMPLES];
} attribution_t;

/* Room for the samples of one turn; NULL when there is none. */
attribution_t *attribution_acquire(void);
void attribution_release(attribution_t *blame); /* which may be NULL */

/* The thread stood at PCS, COUNT of them, at TIME_NS. */
void attribution_add(attribution_t *blame, uint64_t time_ns, const uintptr_t *pcs, int count);

/* Of the turn from BEGAN_NS to NOW_NS: *PCS is the stack, from the culprit outward, of the sample
 * that stands for the most of it; *PERCENT what the culprit owned. Returns how many there are, 0:
 * no sample. They are in BLAME. */
int attribution_find(const attribution_t *blame, uint64_t began_ns, uint64_t now_ns,
                     const uintptr_t **pcs, int *percent);

#endif
