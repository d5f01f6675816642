/* SPDX-License-Identifier: MIT
 *
 * The traced calls of a recording: a call tree with times, the slowest single calls, or each call
 * when it ends. One pass over the events; memory is proportional to the distinct call paths.
 *
 * The time of a call that the filter rejects counts as its caller's own time. So a parent's time is
 * never below the sum of its children's times, whatever the filter.
 *
 * With NET, the tracer's own cost is subtracted from each call: the part of the cost that falls
 * within the call, and the cost of tracing each call inside it. The result is never below the sum
 * of the times of the call's children.
 */
#ifndef SONDE_ANALYSIS_TRACE_H
#define SONDE_ANALYSIS_TRACE_H

#include "base/hash.h"
#include "reader/calls.h"

/* Bucket n counts calls of 2^n … 2^(n+1) - 1 ns; the first begins at 0, the last has no end. */
#define TRACE_BUCKETS 40

/* A call that did not return lasted at least until the last event of its thread. It counts with
 * that time, but neither in min_ns nor in the buckets. */
typedef struct trace_times {
  uint64_t calls, open; /* open: those that did not return */
  double total_ns, open_ns, min_ns, max_ns;
  double self_ns; /* total_ns less the calls inside */
  double wait_ns; /* the part of total_ns in calls that can block, with their own time */
  uint32_t buckets[TRACE_BUCKETS];
} trace_times_t;

/* A function at the end of a path of callers. Node 0 is the root: the caller of all calls that no
 * traced call made. */
typedef struct trace_node {
  uint32_t parent;
  uint32_t frame; /* 0: a call whose entry is not in the recording */
  uint32_t depth; /* of the root 0 */
  trace_times_t times;
} trace_node_t;

/* One call, when it has ended. */
typedef struct trace_call {
  uint32_t node, frame, stream, depth;
  double start_ns; /* since the start of the recording */
  double took_ns, self_ns;
  double wait_ns; /* in calls that can block: itself, or inside it */
  bool open;      /* its thread's stream ended before it */
} trace_span_t;

typedef struct trace_filter {
  double min_ns;      /* rejects shorter calls */
  uint32_t max_depth; /* 1: only calls that no traced call made; 0: no limit */
  bool net;           /* subtract the tracer's own cost */
  uint64_t tid;       /* only this thread; 0: all */
  /* Returns whether calls of FRAME are accepted. NULL: all are. */
  bool (*accept)(void *context, const record_frame_t *frame);
  /* Returns whether calls of FRAME can block. NULL: none can. */
  bool (*can_block)(void *context, const record_frame_t *frame);
  /* Called with each accepted call. Returns false to end the pass. May be NULL. */
  bool (*on_call)(void *context, const trace_span_t *call);
  void *context; /* of accept and can_block */
  void *on_call_context;
  /* Called now and then with the bytes of calls that were read, and of all. May be NULL. */
  void (*progress)(void *context, uint64_t done, uint64_t total);
  void *progress_context;
  uint32_t slowest; /* how many single calls to keep */
  bool waits_apart; /* keep as many calls that only waited in a list of their own */
} trace_filter_t;

typedef struct trace {
  trace_node_t *nodes;
  size_t node_count, node_capacity;
  hash_index_t node_index;           /* by parent and frame */
  uint64_t calls;                    /* recorded, before the filter */
  uint64_t shown;                    /* accepted by the filter */
  uint64_t left;                     /* ended by longjmp or an exception */
  uint64_t open;                     /* had not ended */
  uint64_t unmatched, lost, unknown; /* ends without a start, lost events, calls without a start */
  uint32_t threads;                  /* that made calls */
  trace_span_t *slowest;             /* the slowest first, after trace_run */
  trace_span_t *waits; /* calls that only waited, with waits_apart; the longest first */
  size_t slowest_count, waits_count;
  call_cost_t cost; /* in nanoseconds */
} trace_t;

/* Reads the calls of READER into *OUT. 0 or SONDE_ENOMEM. */
int trace_run(trace_t *out, reader_t *reader, const trace_filter_t *filter);
void trace_free(trace_t *trace);

/* True if a caller of NODE has the same frame. Frames with one name but different addresses are
 * copies of a function, which rarely call each other. */
bool trace_is_recursive(const trace_t *trace, uint32_t node);

/* The mean of the calls that returned. */
static inline double trace_mean_ns(const trace_times_t *t) {
  return t->calls > t->open ? (t->total_ns - t->open_ns) / (double)(t->calls - t->open) : 0;
}

/* Adds MORE to INTO. */
void trace_add_times(trace_times_t *into, const trace_times_t *more);

#endif
