/* SPDX-License-Identifier: MIT
 *
 * One pass over a recording that collects what a time line needs: all sections, and the samples,
 * waits and blocks with their times. The page and the exports that have times are made of it.
 */
#ifndef SONDE_CLI_COMMON_TIMELINE_H
#define SONDE_CLI_COMMON_TIMELINE_H

#include "cli/common/sections.h"
#include "report/exports/page/data.h"

/* It begins as zeros, and is large for a stack. */
typedef struct timeline {
  sections_t sections;
  page_events_t events;
  page_blocks_t blocks;
  page_calls_t calls;
  replay_options_t window;
  json_object *json;
} timeline_t;

/* Reads the events of REPORT, which must outlive TIMELINE, into *OUT. 0 or SONDE_ENOMEM. Release
 * with timeline_free in either case. */
int timeline_run(timeline_t *timeline, report_t *report, page_source_t *out);
void timeline_free(timeline_t *timeline);

#endif
