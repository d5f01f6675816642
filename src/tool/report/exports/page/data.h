/* SPDX-License-Identifier: MIT
 *
 * The data of a page: one JSON object, compressed. page/src/data.ts reads it.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_DATA_H
#define SONDE_REPORT_EXPORTS_PAGE_DATA_H

#include "report/exports/page/blocks.h"
#include "report/exports/page/calls.h"
#include "report/exports/page/events.h"
#include "report/exports/page/names.h"
#include "report/sections/stall_groups.h"

/* What a page is made of, after the pass over the events. */
typedef struct page_source {
  const report_t *report;
  json_object *sections; /* as `sonde report --json` prints */
  const page_events_t *events;
  const page_blocks_t *blocks;
  const page_calls_t *calls;
  const stall_groups_t *stalls;
  bool has_sources; /* the page contains source text */
} page_source_t;

/* Writes the data to OUT. False: out of memory. */
bool page_data_write(const page_source_t *source, page_stream_t *out);

#endif
