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
  sample_stack_t *stacks; /* most ticks first, once samples_read is done */
  size_t stack_count, room;
  uint32_t *slots;
  size_t mask;
} samples_t;

/* Reads the samples between FROM_NS and TO_NS (0: to the end). 0 or SONDE_ENOMEM. */
int samples_read(samples_t *out, reader_t *reader, uint64_t from_ns, uint64_t to_ns);
void samples_free(samples_t *samples);

#endif
