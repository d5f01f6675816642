/* SPDX-License-Identifier: MIT
 *
 * The CPU samples of a recording, added up by stack.
 *
 * A thread's timer ticks at each interval of its CPU time. Some ticks cannot be sampled at once:
 * the kernel checks the timer only now and then, or the thread is in a long system call or blocks
 * signals. Such ticks are merged into the next sample. So the ticks of a thread add up to its CPU
 * time, however busy the machine is.
 */
#ifndef SONDE_ANALYSIS_SAMPLES_H
#define SONDE_ANALYSIS_SAMPLES_H

#include "base/ids.h"
#include "reader/reader.h"

typedef struct sample_stack {
  uint32_t stack;
  uint64_t ticks, missed;
} sample_stack_t;

typedef struct samples {
  /* MISSED of the ticks were merged into a later sample. */
  uint64_t ticks, missed;
  /* Most ticks first after samples_rank. */
  sample_stack_t *stacks;
  size_t stack_count, stack_capacity;
  ids_t ids; /* of the stacks */
} samples_t;

/* The ticks that SAMPLE represents. */
static inline uint64_t sample_ticks(const record_event_t *sample) {
  return 1 + sample->old + sample->size;
}

/* Adds one sample to SAMPLES, a samples_t that begins as zeros. False when memory runs out. */
bool samples_add(void *samples, const record_event_t *sample);

/* Sorts the stacks. Call it once, after the last sample. */
void samples_rank(samples_t *samples);
void samples_free(samples_t *samples);

#endif
