/* SPDX-License-Identifier: MIT
 *
 * The traced calls of a report: by function, and as a tree in the order in which it is shown.
 */
#ifndef SONDE_REPORT_SECTIONS_TRACE_VIEW_H
#define SONDE_REPORT_SECTIONS_TRACE_VIEW_H

#include "report/report.h"

/* What all calls of one function took. A call inside another one of the same function counts for
 * `calls` and `self`, not for the total. */
typedef struct trace_function {
  const frame_name_t *name;
  uint32_t frame; /* one of those that have this name */
  trace_times_t times;
  double total_ns;
} trace_function_t;

typedef struct trace_view {
  const report_t *report;
  trace_t trace;
  trace_function_t *functions; /* most self first */
  size_t function_count;
  uint32_t *order; /* nodes, children of one parent together, the one with most time first */
  uint32_t *first; /* of node n: its children are order[first[n]] … order[first[n + 1] - 1] */
} trace_view_t;

/* Fills in VIEW as the report's options say. 0 or SONDE_ENOMEM. */
int trace_view_make(trace_view_t *view, const report_t *report);
void trace_view_free(trace_view_t *view);

/* The function that a node stands for. */
const frame_name_t *trace_node_name(const trace_view_t *view, uint32_t node);
const frame_name_t *trace_frame_name(const trace_view_t *view, uint32_t frame);

json_object *trace_view_json(const trace_view_t *view);

#endif
