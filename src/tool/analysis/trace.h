/* SPDX-License-Identifier: MIT
 *
 * The traced calls of a recording: a tree of what called what with its times, the slowest single
 * calls, or each call as it ended. One pass; memory follows the number of distinct paths.
 *
 * What is filtered out is passed over: its calls and their times count as their caller's own. So a
 * parent's time is never below the sum of its children's, whatever is left out.
 *
 * The tracer's own time can be taken off (NET): from each call what tracing adds within it, and
 * what tracing each call inside it adds; never more than leaves the sum of its children.
 */
#ifndef SONDE_ANALYSIS_TRACE_H
#define SONDE_ANALYSIS_TRACE_H

#include "reader/calls.h"

#define TRACE_BUCKETS 40 /* calls of 2^n … 2^(n+1) - 1 ns, the first from 0, the last one open */

typedef struct trace_times {
  uint64_t calls;
  double total_ns, self_ns, min_ns, max_ns; /* self: less the calls inside */
  uint32_t buckets[TRACE_BUCKETS];
} trace_times_t;

/* A function at the end of a path of callers. Node 0 is the root: what no traced call called. */
typedef struct trace_node {
  uint32_t parent, frame; /* frame 0: a call that began before anything is known of it */
  uint32_t depth;         /* of the root 0 */
  trace_times_t times;
} trace_node_t;

/* One call, when it has ended. */
typedef struct trace_call {
  uint32_t node, frame, stream, depth;
  double start_ns, took_ns; /* since the start of the recording */
  bool open;                /* it had not ended when its thread's stream did */
} trace_call_t;

typedef struct trace_filter {
  double min_ns;      /* shorter calls are passed over */
  uint32_t max_depth; /* 1: calls that no traced call called; 0: without limit */
  bool net;           /* take off the tracer's own time */
  uint64_t tid;       /* of this thread alone; 0: all */
  /* Is FRAME wanted? NULL: every one is. */
  bool (*accept)(void *context, const record_frame_t *frame);
  /* Told of each call that was not passed over; false: no memory, or enough. NULL: nobody. */
  bool (*on_call)(void *context, const trace_call_t *call);
  void *context, *on_call_context; /* of WANTS, of EACH */
  uint32_t slowest;                /* how many single calls to keep */
} trace_filter_t;

typedef struct trace {
  trace_node_t *nodes;
  size_t node_count, node_room;
  uint64_t calls; /* recorded, whatever the filter says */
  uint64_t shown; /* left by the filter */
  uint64_t left;  /* ended by longjmp or an exception */
  uint64_t open;  /* had not ended */
  uint64_t unmatched, lost, unknown;
  uint32_t threads;      /* that made calls */
  trace_call_t *slowest; /* the slowest one first, once trace_run is done */
  size_t slowest_count;
  call_cost_t cost; /* in nanoseconds */
  /* of the pass */
  uint32_t *slots; /* (parent, frame) to node */
  size_t mask;
} trace_t;

/* Reads the calls of READER into *OUT. 0 or SONDE_ENOMEM. */
int trace_run(trace_t *out, reader_t *reader, const trace_filter_t *filter);
void trace_free(trace_t *trace);

/* Adds MORE to INTO. */
void trace_add_times(trace_times_t *into, const trace_times_t *more);

#endif
