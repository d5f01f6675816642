/* SPDX-License-Identifier: MIT
 *
 * Live heap and allocation rate of a program that is being recorded: replays the recording, which
 * its recorder writes meanwhile. One thread uses these functions.
 */
#ifndef SONDE_TOP_HEAP_H
#define SONDE_TOP_HEAP_H

#include "top/budget.h"
#include "top/sampler.h"

typedef struct top_heap_reader {
  pid_t pid;
  uint64_t next_ns; /* when the next reading is due */
  top_costs_t costs;
} top_heap_reader_t;

/* Reads the heap into MODEL->heap if that is due at NOW_NS. */
void top_heap_read(top_heap_reader_t *reader, top_sampler_t *sampler, top_model_t *model,
                   uint64_t now_ns);

/* Sends COMMAND, as `sonde ctl` takes it, to the recorder. Writes its refusal to OUT; "": done. */
void top_heap_command(top_heap_reader_t *reader, const char *command, char *out, size_t size);

#endif
