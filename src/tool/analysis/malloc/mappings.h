/* SPDX-License-Identifier: MIT
 *
 * The memory mappings of a program: what recorded calls of mmap, munmap, mremap and brk left
 * mapped, and which mappings of the last checkpoint (the kernel's own list) these calls explain.
 * The mappings are an array sorted by address; a call on part of a mapping splits the mapping.
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
  uint32_t tag; /* number + 1 in mappings_t.tags; 0: none */
} mapped_range_t;

/* Kinds of mappings. X(name, text) */
#define MAPPING_KIND_TABLE(X)                                                                      \
  X(CODE, "programs and libraries")                                                                \
  X(FILE, "files")                                                                                 \
  X(HEAP, "heap (brk)")                                                                            \
  X(STACK, "main stack")                                                                           \
  X(SHARED, "shared memory")                                                                       \
  X(NAMED, "anonymous, named")                                                                     \
  X(ANONYMOUS, "anonymous")                                                                        \
  X(KERNEL, "kernel (vdso, vvar)")                                                                 \
  X(SONDE, "sonde's own buffers")

typedef enum mapping_kind {
#define MAPPING_KIND_ENUM(name, text) MAPPING_KIND_##name,
  MAPPING_KIND_TABLE(MAPPING_KIND_ENUM)
#undef MAPPING_KIND_ENUM
      MAPPING_KINDS
} mapping_kind_t;

typedef struct mapping_totals {
  uint64_t count, bytes;
  uint64_t with_stack; /* bytes that a recorded call mapped */
} mapping_totals_t;

/* The mappings of one stack. */
typedef struct stack_mappings {
  uint32_t stack;
  uint64_t calls, bytes; /* in the whole recording */
  uint64_t live;         /* bytes at the end */
} stack_mappings_t;

/* The mappings with one tag: Apple's logs say what a mapping is for. */
typedef struct tag_mappings {
  char tag[64];
  uint64_t calls, bytes; /* in the whole recording */
  uint64_t live;         /* bytes at the end */
} tag_mappings_t;

typedef struct mappings {
  mapped_range_t *items; /* by address; they do not overlap */
  size_t count, capacity;
  stack_mappings_t *stacks;
  size_t stack_count, stack_capacity;
  tag_mappings_t *tags;
  size_t tag_count, tag_capacity;
  uint64_t mapped, unmapped, moved; /* calls */
  uint64_t bytes, peak_bytes, peak_time;
  uint64_t checkpoints, checkpoint_time;
  char *maps; /* the text of the last checkpoint */
  size_t maps_size;
  bool is_ranked;
} mappings_t;

/* Adds an event of any kind. False when memory runs out. */
bool mappings_event(mappings_t *m, const record_event_t *event);
void mappings_free(mappings_t *m);

/* After the last event: totals by kind of the last checkpoint's mappings. */
void mappings_kinds(const mappings_t *m, mapping_totals_t out[MAPPING_KINDS]);

/* After the last event: sets `live` of every stack and tag and sorts by it. */
void mappings_rank(mappings_t *m);

#endif
