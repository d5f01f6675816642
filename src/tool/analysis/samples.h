/* SPDX-License-Identifier: MIT
 *
 * The samples of a recording, summed up by stack.
 *
 * A thread's timer ticks at each interval of its CPU time. Ticks that cannot be taken at once (the
 * kernel looks at the timer now and then, the thread is in a long system call or blocks signals)
 * are merged into the next sample, which stands for them all: so the samples of a thread add up to
 * its CPU time, however busy the machine is.
 */
#ifndef SONDE_ANALYSIS_SAMPLES_H
#define SONDE_ANALYSIS_SAMPLES_H

#include "reader/reader.h"

typedef struct sample_stack {
  uint32_t stack;
  uint64_t ticks, missed;
} sample_stack_t;

typedef struct samples {
  uint64_t ticks, missed; /* MISSED of the ticks were merged into a later sample */
  sample_stack_t *stacks; /* most ticks first, once samples_rank is done */
  size_t stack_count, room;
  uint32_t *slots;
  size_t mask;
} samples_t;

/* The ticks that SAMPLE stands for. */
static inline uint64_t sample_ticks(const record_event_t *sample) {
  return 1 + sample->old + sample->size;
}

/* Adds one sample to SAMPLES, which begin as zeros; false without memory. */
bool samples_add(void *samples, const record_event_t *sample);

/* Puts the stacks in order, once all samples are there. */
void samples_rank(samples_t *samples);
void samples_free(samples_t *samples);

#endif
