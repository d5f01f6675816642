/* SPDX-License-Identifier: MIT
 *
 * The traced calls that a report shows: by function, and as a tree in the order to print.
 */
#ifndef SONDE_REPORT_SECTIONS_TRACE_VIEW_H
#define SONDE_REPORT_SECTIONS_TRACE_VIEW_H

#include "report/report.h"

/* The calls of one function. A recursive call counts for `calls` and `self`, not for the totals
 * of time and of waiting. */
typedef struct trace_function {
  const frame_name_t *name;
  uint32_t frame; /* one of the frames with this name */
  trace_times_t times;
  double total_ns, wait_ns;
} trace_function_t;

typedef struct trace_view {
  const report_t *report;
  trace_t trace;
  trace_function_t *functions; /* the program's own first, then by total time; or by self time */
  size_t function_count;
  bool has_waits; /* calls that can block were traced */
  bool has_own;   /* functions of the program itself were */
  /* Nodes by parent, largest total time first; of the root's, waits besides are last. The children
   * of node N are order[first[N]] to order[first[N + 1] - 1]. */
  uint32_t *order, *first;
} trace_view_t;

/* Fills VIEW by the report's options. Returns 0 or SONDE_ENOMEM. */
int trace_view_make(trace_view_t *view, const report_t *report);
void trace_view_free(trace_view_t *view);

/* True if NODE is a call that can block, which was traced besides the functions that the user asked
 * for. */
bool trace_is_wait_besides(const trace_view_t *view, uint32_t node);

/* The function of a node, of a frame. */
const frame_name_t *trace_node_name(const trace_view_t *view, uint32_t node);
const frame_name_t *trace_frame_name(const report_t *report, uint32_t frame);

#endif
