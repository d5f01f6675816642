/* SPDX-License-Identifier: MIT
 *
 * Converts Apple's malloc stack logs to a recording.
 *
 * The logs have no times, so the time of an event is its number. The thread is the outermost
 * pseudo-frame of a stack. A block that was freed right after its allocation is not in the log.
 * Stacks that events refer to come from the stack table; without a table every stack is truncated
 * before its first frame.
 */
#ifndef SONDE_IMPORT_APPLE_H
#define SONDE_IMPORT_APPLE_H

#include "import/apple_log.h"
#include "import/apple_table.h"
#include "import/images.h"
#include "import/offline.h"

typedef struct apple_input {
  const uint8_t *log; /* NULL: none */
  uint64_t log_size;
  bool log_is_mapped; /* from a file: its pages are released once read */
  apple_layout_t layout;
  const apple_table_t *table; /* NULL: none */
  const uint8_t *regions;     /* NULL: none */
  uint64_t regions_size;
  const image_list_t *images;
  const uint64_t *link_bases; /* of each image: its address as linked */
} apple_input_t;

/* Counts of the result. */
typedef struct apple_summary {
  uint64_t records, events, regions;
  uint64_t damaged;        /* impossible records, which are skipped */
  uint64_t partial_bytes;  /* of an incomplete record at the end */
  uint64_t unknown_stacks; /* events whose stack is not in the table */
  uint64_t broken_chains;  /* nodes whose parent is out of range or closes a cycle: truncated */
  uint64_t damaged_regions;
  uint64_t threads, stacks, frames;
} apple_summary_t;

/* Writes all chunks except the process and the header. PROGRESS may be NULL. False when memory runs
 * out. */
bool apple_import(offline_t *to, const apple_input_t *input, apple_summary_t *summary,
                  void (*progress)(void *context, uint64_t done, uint64_t total), void *context);

#endif
