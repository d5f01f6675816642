/* SPDX-License-Identifier: MIT */
#include "analysis/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sonde/status.h"

/* Deeper calls are rejected: their paths would take too much memory. */
#define DEPTH_MAX      65536u
#define PROGRESS_STEPS 65536u

/* A call that has not ended in the stream that is read. */
typedef struct open_call {
  uint32_t node; /* its own if it is accepted, else that of its nearest accepted caller */
  uint32_t frame;
  bool shown; /* accepted */
  uint64_t start;
  uint64_t inside;    /* calls inside it, at any depth */
  double children_ns; /* of the outermost accepted calls inside it */
  double wait_ns;     /* of the outermost calls inside it that can block */
} running_call_t;

typedef struct pass {
  trace_t *trace;
  reader_t *reader;
  const trace_filter_t *filter;
  double min_ns; /* of the filter, and of the recording */
  uint64_t max_depth;
  running_call_t *calls;
  size_t count, capacity;
  uint32_t stream;
  double rate;
  uint8_t *accepted; /* by frame of the recording: 0 not yet known, 1 no, 2 yes */
  uint8_t *blocking; /* the same of can_block */
  const record_frame_t *frames;
  bool stopped;              /* by on_call */
  uint64_t bytes, all_bytes; /* of calls: of the streams that were read, and of all */
} trace_pass_t;

/* ---- the tree ------------------------------------------------------------------------------ */

static uint64_t hash_of_node(const void *trace, size_t i) {
  const trace_node_t *n = &((const trace_t *)trace)->nodes[i];
  return hash_pair(n->parent, n->frame);
}

/* The node of FRAME called from PARENT; 0 when memory runs out. */
static uint32_t child(trace_t *t, uint32_t parent, uint32_t frame) {
  uint32_t *slot;
  if (!ARRAY_GROW(t->nodes, t->node_count, t->node_capacity) ||
      !hash_reserve(&t->node_index, t->node_count, hash_of_node, t))
    return 0;
  HASH_FIND(&t->node_index, hash_pair(parent, frame), slot) {
    const trace_node_t *n = &t->nodes[*slot - 1];
    if (n->parent == parent && n->frame == frame && *slot > 1) return *slot - 1;
  }
  uint32_t depth = t->nodes[parent].depth + 1;
  t->nodes[t->node_count] = (trace_node_t){.parent = parent, .frame = frame, .depth = depth};
  *slot = (uint32_t)t->node_count + 1;
  return (uint32_t)t->node_count++;
}

static unsigned bucket_of(double ns) {
  if (ns < 2) return 0;
  uint64_t whole = ns < 9e18 ? (uint64_t)ns : UINT64_MAX;
  unsigned c = 63 - (unsigned)__builtin_clzll(whole);
  return c < TRACE_BUCKETS ? c : TRACE_BUCKETS - 1;
}

static void add_call(trace_times_t *t, double took, double self, double waits, bool open) {
  uint64_t ended = t->calls - t->open;
  t->calls++;
  t->wait_ns += waits;
  t->total_ns += took;
  t->self_ns += self;
  if (took > t->max_ns) t->max_ns = took;
  if (open) {
    t->open++;
    t->open_ns += took;
    return;
  }
  if (!ended || took < t->min_ns) t->min_ns = took;
  t->buckets[bucket_of(took)]++;
}

void trace_add_times(trace_times_t *into, const trace_times_t *more) {
  if (!more->calls) return;
  bool ended = more->calls > more->open, first = into->calls == into->open;
  if (ended && (first || more->min_ns < into->min_ns)) into->min_ns = more->min_ns;
  if (more->max_ns > into->max_ns) into->max_ns = more->max_ns;
  into->calls += more->calls;
  into->open += more->open;
  into->open_ns += more->open_ns;
  into->total_ns += more->total_ns;
  into->self_ns += more->self_ns;
  into->wait_ns += more->wait_ns;
  for (int i = 0; i < TRACE_BUCKETS; i++)
    into->buckets[i] += more->buckets[i];
}

/* ---- the slowest calls: a heap, the fastest of them first ------------------------------------ */

static void sift_down(trace_span_t *heap, size_t count, size_t i) {
  trace_span_t one = heap[i];
  for (size_t c; (c = 2 * i + 1) < count; i = c) {
    if (c + 1 < count && heap[c + 1].took_ns < heap[c].took_ns) c++;
    if (heap[c].took_ns >= one.took_ns) break;
    heap[i] = heap[c];
  }
  heap[i] = one;
}

static void add_to_heap(trace_span_t *heap, size_t *count, size_t most, const trace_span_t *one) {
  if (!heap) return;
  if (*count < most) {
    size_t i = (*count)++;
    for (; i && heap[(i - 1) / 2].took_ns > one->took_ns; i = (i - 1) / 2)
      heap[i] = heap[(i - 1) / 2];
    heap[i] = *one;
  } else if (most && one->took_ns > heap[0].took_ns) {
    heap[0] = *one;
    sift_down(heap, most, 0);
  }
}

/* A call whose own work is less than a hundredth only waits. */
static void add_slowest(trace_t *t, const trace_filter_t *filter, const trace_span_t *one) {
  if (filter->waits_apart && one->wait_ns > 0.99 * one->took_ns)
    add_to_heap(t->waits, &t->waits_count, filter->slowest, one);
  else
    add_to_heap(t->slowest, &t->slowest_count, filter->slowest, one);
}

static int by_time(const void *left, const void *right) {
  const trace_span_t *a = left, *b = right;
  if (a->took_ns != b->took_ns) return a->took_ns > b->took_ns ? -1 : 1;
  return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* ---- steps --------------------------------------------------------------------------------- */

/* What DECIDE says of FRAME; KNOWN keeps its decisions. */
static bool decides(const trace_pass_t *p, uint8_t *known, uint32_t frame,
                    bool (*decide)(void *context, const record_frame_t *frame)) {
  const record_frame_t *f = reader_frame(p->reader, frame);
  if (!f) return false;
  uint8_t *decision = &known[f - p->frames];
  if (!*decision) *decision = decide(p->filter->context, f) ? 2 : 1;
  return *decision == 2;
}

static bool is_accepted(const trace_pass_t *p, uint32_t frame) {
  return !p->filter->accept || decides(p, p->accepted, frame, p->filter->accept);
}

static bool can_block(const trace_pass_t *p, uint32_t frame) {
  return p->filter->can_block && decides(p, p->blocking, frame, p->filter->can_block);
}

static bool begin_call(trace_pass_t *p, uint32_t frame, uint64_t time) {
  if (!ARRAY_GROW(p->calls, p->count, p->capacity)) return false;
  trace_t *t = p->trace;
  uint32_t parent = p->count ? p->calls[p->count - 1].node : 0;
  uint32_t depth = t->nodes[parent].depth;
  running_call_t *c = &p->calls[p->count];
  *c = (running_call_t){.node = parent, .frame = frame, .start = time};
  c->shown = depth < DEPTH_MAX && (!p->max_depth || depth < p->max_depth) && is_accepted(p, frame);
  if (c->shown && !(c->node = child(t, parent, frame))) return false;
  p->count++;
  return true;
}

static bool end_call(trace_pass_t *p, uint64_t time, bool open) {
  trace_t *t = p->trace;
  const running_call_t c = p->calls[--p->count];
  running_call_t *outer = p->count ? &p->calls[p->count - 1] : NULL;
  if (outer) outer->inside += c.inside + 1;
  double took = time > c.start ? (double)(time - c.start) * p->rate : 0;
  if (p->filter->net) took -= t->cost.inside + (double)c.inside * t->cost.pair;
  if (took < c.children_ns) took = c.children_ns;
  double waits = can_block(p, c.frame) || c.wait_ns > took ? took : c.wait_ns;
  if (outer) outer->wait_ns += waits;
  if (!c.shown || took < p->min_ns) {
    if (outer) outer->children_ns += c.children_ns;
    return true;
  }
  if (outer) outer->children_ns += took;
  add_call(&t->nodes[c.node].times, took, took - c.children_ns, waits, open);
  t->shown++;
  trace_span_t one = {.node = c.node,
                      .frame = c.frame,
                      .stream = p->stream,
                      .depth = t->nodes[c.node].depth,
                      .start_ns = reader_clock_ns(p->reader, c.start),
                      .took_ns = took,
                      .self_ns = took - c.children_ns,
                      .wait_ns = waits,
                      .open = open};
  add_slowest(t, p->filter, &one);
  if (p->filter->on_call && !p->filter->on_call(p->filter->on_call_context, &one))
    p->stopped = true;
  return true;
}

static bool apply_step(trace_pass_t *p, const call_step_t *s) {
  trace_t *t = p->trace;
  switch (s->what) {
  case CALL_ENTERED: t->calls++; return begin_call(p, s->frame, s->time);
  case CALL_UNKNOWN: t->unknown++; return begin_call(p, 0, s->time);
  case CALL_UNWOUND: t->left++; return end_call(p, s->time, false);
  case CALL_DROPPED: t->open++; return end_call(p, s->time, true);
  case CALL_ENDED: return end_call(p, s->time, false);
  case CALL_STRAY: t->unmatched++; return true;
  }
  return true;
}

static bool read_stream(trace_pass_t *p, calls_t *calls) {
  call_step_t s;
  uint64_t before = p->trace->calls;
  bool good = true;
  p->stream = calls_stream(calls);
  const record_thread_t *thread = reader_thread(p->reader, p->stream);
  if (p->filter->tid && (!thread || thread->tid != p->filter->tid)) return true;
  for (uint64_t n = 1; good && !p->stopped && calls_next(calls, &s); n++) {
    good = apply_step(p, &s);
    if (n % PROGRESS_STEPS == 0 && p->filter->progress)
      p->filter->progress(p->filter->progress_context, p->bytes + calls_read(calls), p->all_bytes);
  }
  p->bytes += calls_read(calls);
  while (p->count) {
    p->trace->open++;
    end_call(p, calls_last_time(calls), true);
  }
  p->trace->lost += calls_lost(calls);
  if (p->trace->calls != before && (!thread || thread->level == 2)) p->trace->threads++;
  return good;
}

static bool prepare(trace_pass_t *p) {
  size_t frames;
  trace_t *t = p->trace;
  p->frames = reader_frames(p->reader, &frames);
  p->accepted = calloc(frames + 1, 2);
  uint32_t slowest = p->filter->slowest;
  if (slowest) t->slowest = calloc(slowest, sizeof *t->slowest);
  if (slowest && p->filter->waits_apart) t->waits = calloc(slowest, sizeof *t->waits);
  p->blocking = p->accepted ? p->accepted + frames + 1 : NULL;
  if (!p->accepted || (slowest && (!t->slowest || (p->filter->waits_apart && !t->waits))))
    return false;
  if (!ARRAY_GROW(t->nodes, 0, t->node_capacity)) return false;
  t->nodes[0] = (trace_node_t){0};
  t->node_count = 1;
  p->rate = reader_clock_rate(p->reader);
  call_limits_t limits = reader_call_limits(p->reader);
  p->min_ns = (double)limits.least_ns;
  p->max_depth = limits.depth;
  if (p->filter->min_ns > p->min_ns) p->min_ns = p->filter->min_ns;
  if (p->filter->max_depth && (!p->max_depth || p->filter->max_depth < p->max_depth))
    p->max_depth = p->filter->max_depth;
  call_cost_t cost = reader_call_cost(p->reader);
  t->cost = (call_cost_t){cost.pair * p->rate, cost.inside * p->rate};
  return true;
}

int trace_run(trace_t *out, reader_t *reader, const trace_filter_t *filter) {
  memset(out, 0, sizeof *out);
  trace_pass_t p = {
      .trace = out, .reader = reader, .filter = filter, .all_bytes = calls_bytes(reader)};
  bool good = prepare(&p);
  calls_t *calls;
  for (size_t place = 0; good && !p.stopped && (calls = calls_open(reader, &place));) {
    good = read_stream(&p, calls);
    calls_close(calls);
  }
  free(p.calls);
  free(p.accepted);
  if (good && out->slowest_count)
    qsort(out->slowest, out->slowest_count, sizeof *out->slowest, by_time);
  if (good && out->waits_count) qsort(out->waits, out->waits_count, sizeof *out->waits, by_time);
  if (!good) trace_free(out);
  return good ? 0 : SONDE_ENOMEM;
}

bool trace_is_recursive(const trace_t *t, uint32_t node) {
  uint32_t frame = t->nodes[node].frame;
  for (uint32_t n = t->nodes[node].parent; n; n = t->nodes[n].parent)
    if (t->nodes[n].frame == frame) return true;
  return false;
}

void trace_free(trace_t *t) {
  free(t->nodes);
  hash_free(&t->node_index);
  free(t->slowest);
  free(t->waits);
  memset(t, 0, sizeof *t);
}
