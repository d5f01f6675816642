/* SPDX-License-Identifier: MIT
 *
 * The samples of a recording, summed up: by stack, by thread, and by function, both where the CPU
 * was (self) and what led there (total).
 */
#ifndef SONDE_ANALYSIS_SAMPLES_H
#define SONDE_ANALYSIS_SAMPLES_H

#include "record/read.h"

typedef struct sample_stack {
  uint32_t stack;
  uint64_t ticks;
} sample_stack_t;

typedef struct samples {
  uint64_t ticks, missed;
  sample_stack_t *stacks; /* most ticks first, once samples_rank is done */
  size_t stack_count, room;
  uint32_t *slots;
  size_t mask;
} samples_t;

/* Adds one sample to SAMPLES, which begin as zeros; false without memory. */
bool samples_add(void *samples, const record_event_t *sample);

/* Puts the stacks in order, once all samples are there. */
void samples_rank(samples_t *samples);
void samples_free(samples_t *samples);

#endif
