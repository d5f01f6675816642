/* SPDX-License-Identifier: MIT
 *
 * Apple's malloc stack logs as a recording.
 *
 * What the logs lack stays lacking: there is no time, so an event's time is its number; a thread is
 * the outermost pseudo-frame of a stack; a block that was freed right after it was given out is not
 * in the log at all. Stacks, and only those that events name, come from the stack table; without
 * one every stack is cut before its first frame.
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
  bool log_is_mapped; /* from a file: pages may be given back as they were read */
  apple_layout_t layout;
  const apple_table_t *table; /* NULL: none */
  const uint8_t *regions;     /* NULL: none */
  uint64_t regions_size;
  const image_list_t *images;
  const uint64_t *link_bases; /* of each image: its address as linked */
} apple_input_t;

/* What was found. */
typedef struct apple_summary {
  uint64_t records, events, regions;
  uint64_t damaged;        /* records that no writer writes: passed over */
  uint64_t cut_bytes;      /* of a record at the end that is not whole */
  uint64_t unknown_stacks; /* events whose stack is not in the table */
  uint64_t broken_chains;  /* nodes whose parent is out of range or further in: cut there */
  uint64_t damaged_regions;
  uint64_t threads, stacks, frames;
} apple_summary_t;

/* Writes everything but the process and the header. PROGRESS may be NULL. False: no memory. */
bool apple_import(offline_t *to, const apple_input_t *input, apple_summary_t *summary,
                  void (*progress)(void *context, uint64_t done, uint64_t total), void *context);

#endif
