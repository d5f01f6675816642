/* SPDX-License-Identifier: MIT
 *
 * The records of a recording as JSON lines (docs/json.md, `sonde events`): extended records and
 * definitions of tables. A kind that this version does not know is a line "unknown", so that none
 * is left out silently.
 */
#ifndef SONDE_REPORT_EXPORTS_RECORD_LINES_H
#define SONDE_REPORT_EXPORTS_RECORD_LINES_H

#include <stdio.h>

#include "analysis/audit/audit.h"
#include "report/frame_names.h"

typedef struct record_lines {
  reader_t *reader;
  const audit_t *audit;
  frame_names_t *names; /* NULL: no "functions" */
  bool stacks;          /* add "frames", the program counters */
  FILE *out;
} record_lines_t;

/* Prints members of the line that is being printed, each after a comma: the stack's frames and
 * functions, as far as they are wanted. */
void record_lines_stack(const record_lines_t *lines, uint32_t stack);

/* Prints an extended record: a line, or one for each block of a snapshot. */
void record_lines_extended(const record_lines_t *lines, const record_event_t *event);

/* Prints the definitions: process, images, threads, frames, stack nodes, and those of sensors. */
void record_lines_tables(const record_lines_t *lines);

#endif
