/* SPDX-License-Identifier: MIT
 *
 * Attributes the time of one iteration to code, in the program itself: collects stacks sampled
 * during the iteration and finds its hot path (hot_path.h).
 *
 * Used by one thread, the program's own monitor. This code allocates no memory: a fixed table has
 * space for the samples of ATTRIBUTIONS iterations at a time.
 */
#ifndef SONDE_SENSOR_STALL_ATTRIBUTION_H
#define SONDE_SENSOR_STALL_ATTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#define ATTRIBUTIONS        8
#define ATTRIBUTION_SAMPLES 32
#define ATTRIBUTION_DEPTH   256

typedef struct attribution {
  bool used;
  int count;
  struct {
    uint64_t time_ns;
    int depth;
    uintptr_t pcs[ATTRIBUTION_DEPTH]; /* innermost first */
  } samples[ATTRIBUTION_SAMPLES];
} attribution_t;

/* Memory for the samples of one iteration; NULL if all is in use. */
attribution_t *attribution_acquire(void);
/* A may be NULL. */
void attribution_release(attribution_t *a);

/* Adds the stack PCS, COUNT entries, captured at TIME_NS. */
void attribution_add(attribution_t *a, uint64_t time_ns, const uintptr_t *pcs, int count);

/* Finds the hot path of the iteration from BEGAN_NS to NOW_NS. *PCS points into A: the hot function
 * and its callers, in the sample that represents most time. *PERCENT is the share of the hot
 * function. Returns the number of entries; 0: there are no samples. */
int attribution_find(const attribution_t *a, uint64_t began_ns, uint64_t now_ns,
                     const uintptr_t **pcs, int *percent);

#endif
