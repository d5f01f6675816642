/* SPDX-License-Identifier: MIT
 *
 * The words on the stacks of a thread of the program. Only a tracer calls this (attach/tracer.h).
 */
#ifndef SONDE_ATTACH_STACK_H
#define SONDE_ATTACH_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/maps.h"

/* Returns false to end the search. */
typedef bool stack_part_t(void *context, const uint64_t *words, size_t count);

typedef struct stack_source {
  int memory_fd; /* /proc/PID/mem */
  const maps_t *maps;
} stack_source_t;

/* Passes the words from BELOW bytes under SP to the end of the mapping, at most 8 MB, to PART; then
 * those of the stacks that signal handlers on it interrupted, and that arch_call_on has left. If a
 * mapping is not known, as that of a thread which started after MAPS was read, its words end where
 * memory ends. Returns false if PART did, or if a part of a stack cannot be read. */
bool stack_search(const stack_source_t *source, uint64_t sp, uint64_t below, stack_part_t *part,
                  void *context);

#endif
