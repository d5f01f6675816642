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

typedef struct mapped {
  uint64_t start, end;
  uint64_t time; /* ticks, of the call */
  uint32_t stack, stream;
} mapped_t;

/* Kinds of regions. X(name, text) */
#define REGION_KIND_TABLE(X)                                                                       \
  X(CODE, "programs and libraries")                                                                \
  X(FILE, "files")                                                                                 \
  X(HEAP, "heap (brk)")                                                                            \
  X(STACK, "main stack")                                                                           \
  X(SHARED, "shared memory")                                                                       \
  X(NAMED, "anonymous, named")                                                                     \
  X(ANONYMOUS, "anonymous")                                                                        \
  X(KERNEL, "the kernel's (vdso and such)")                                                        \
  X(SONDE, "sonde's own, to record")

typedef enum region_kind {
#define REGION_KIND_ENUM(name, text) REGION_KIND_##name,
  REGION_KIND_TABLE(REGION_KIND_ENUM)
#undef REGION_KIND_ENUM
      REGION_KINDS
} region_kind_t;

typedef struct kind_totals {
  uint64_t count, bytes;
  uint64_t with_stack; /* bytes of it that a recorded call mapped */
} kind_totals_t;

/* What one stack has mapped. */
typedef struct stack_regions {
  uint32_t stack;
  uint64_t calls, bytes; /* in all */
  uint64_t live;         /* bytes at the end */
} stack_regions_t;

typedef struct regions {
  mapped_t *items; /* by address; they do not overlap */
  size_t count, room;
  stack_regions_t *stacks;
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
bool mappings_kinds(const mappings_t *r, kind_totals_t out[REGION_KINDS]);

/* After the pass: `live` of every stack, most first. */
void mappings_rank(mappings_t *r);

#endif
