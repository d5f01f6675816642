/* SPDX-License-Identifier: MIT
 *
 * Regions of memory: what calls of mmap and its kin have left, and what of that the last checkpoint
 * (the kernel's own list) knows. An array sorted by address; a call on part of a region splits it.
 */
#ifndef SONDE_ANALYSIS_MALLOC_MAPPINGS_H
#define SONDE_ANALYSIS_MALLOC_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reader/reader.h"

typedef struct mapped_range {
  uint64_t start, end;
  uint64_t time; /* ticks, of the call */
  uint32_t stack, stream;
} mapped_range_t;

/* Kinds of regions. X(name, text) */
#define MAPPING_KIND_TABLE(X)                                                                      \
  X(CODE, "programs and libraries")                                                                \
  X(FILE, "files")                                                                                 \
  X(HEAP, "heap (brk)")                                                                            \
  X(STACK, "main stack")                                                                           \
  X(SHARED, "shared memory")                                                                       \
  X(NAMED, "anonymous, named")                                                                     \
  X(ANONYMOUS, "anonymous")                                                                        \
  X(KERNEL, "the kernel's (vdso and such)")                                                        \
  X(SONDE, "sonde's own, to record")

typedef enum mapping_kind {
#define MAPPING_KIND_ENUM(name, text) MAPPING_KIND_##name,
  MAPPING_KIND_TABLE(MAPPING_KIND_ENUM)
#undef MAPPING_KIND_ENUM
      MAPPING_KINDS
} mapping_kind_t;

typedef struct mapping_totals {
  uint64_t count, bytes;
  uint64_t with_stack; /* bytes of it that a recorded call mapped */
} mapping_totals_t;

/* What one stack has mapped. */
typedef struct stack_mappings {
  uint32_t stack;
  uint64_t calls, bytes; /* in all */
  uint64_t live;         /* bytes at the end */
} stack_mappings_t;

typedef struct mappings {
  mapped_range_t *items; /* by address; they do not overlap */
  size_t count, room;
  stack_mappings_t *stacks;
  size_t stack_count, stack_room;
  uint64_t mapped, unmapped, moved; /* calls */
  uint64_t bytes, peak_bytes, peak_time;
  uint64_t checkpoints, checkpoint_time;
  char *maps; /* the text of the last checkpoint */
  size_t maps_size;
} mappings_t;

/* Takes part in the pass: an event of any kind. False without memory. */
bool mappings_event(mappings_t *r, const record_event_t *event);
void mappings_free(mappings_t *r);

/* After the pass: totals by kind of the last checkpoint's regions. False without memory. */
bool mappings_kinds(const mappings_t *r, mapping_totals_t out[MAPPING_KINDS]);

/* After the pass: `live` of every stack, most first. */
void mappings_rank(mappings_t *r);

#endif
