/* SPDX-License-Identifier: MIT */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "report/function_sizes.h"
#include "report/sections/trace_view.h"
#include "sensor/trace/wait_names.h"
#include "sonde/status.h"

/* The slowest single calls with --all, which is about functions and the tree. */
enum { SLOWEST_OF_ALL = 100 };

const frame_name_t *trace_frame_name(const report_t *r, uint32_t frame) {
  static const frame_name_t unknown = {.function = "[called before the recording]", .library = ""};
  const record_frame_t *f = frame ? reader_frame(r->reader, frame) : NULL;
  if (!f) return &unknown;
  const frame_name_t *names;
  int count = frame_names_of_frame(r->names, f, &names);
  return &names[count - 1]; /* the function itself, without inlined ones */
}

const frame_name_t *trace_node_name(const trace_view_t *v, uint32_t node) {
  return trace_frame_name(v->report, v->trace.nodes[node].frame);
}

static bool name_can_block(const frame_name_t *name) {
  return wait_names_has_of(name->function, name->library);
}

/* Functions of images were patched, but not the program's own. */
static bool has_only_libraries(const trace_view_t *v) {
  return !v->has_own && reader_patched(v->report->reader, MOVE_OK);
}

bool trace_is_wait_besides(const trace_view_t *v, uint32_t node) {
  const frame_name_t *name = trace_node_name(v, node);
  return !name->own && name_can_block(name) && (v->has_own || has_only_libraries(v));
}

/* ---- order of the tree ----------------------------------------------------------------------- */

static int by_parent(const void *left, const void *right, void *context) {
  const trace_view_t *v = context;
  uint32_t i = *(const uint32_t *)left, k = *(const uint32_t *)right;
  const trace_node_t *a = &v->trace.nodes[i], *b = &v->trace.nodes[k];
  if (a->parent != b->parent) return a->parent < b->parent ? -1 : 1;
  if (!a->parent) {
    bool x = trace_is_wait_besides(v, i), y = trace_is_wait_besides(v, k);
    if (x != y) return x ? 1 : -1;
  }
  if (a->times.total_ns != b->times.total_ns) return a->times.total_ns > b->times.total_ns ? -1 : 1;
  return i < k ? -1 : i > k;
}

static bool sort_nodes(trace_view_t *v) {
  size_t count = v->trace.node_count;
  v->order = calloc(count + 1, sizeof *v->order);
  v->first = calloc(count + 1, sizeof *v->first);
  if (!v->order || !v->first) return false;
  for (size_t i = 1; i < count; i++)
    v->order[i - 1] = (uint32_t)i;
  if (count > 2) qsort_r(v->order, count - 1, sizeof *v->order, by_parent, v);
  size_t at = 0;
  for (size_t n = 0; n < count; n++) {
    v->first[n] = (uint32_t)at;
    while (at < count - 1 && v->trace.nodes[v->order[at]].parent == n)
      at++;
  }
  v->first[count] = (uint32_t)at;
  return true;
}

/* ---- by function ---------------------------------------------------------------------------- */

static int by_name(const void *left, const void *right) {
  const trace_function_t *a = left, *b = right;
  int order = frame_name_compare(a->name, b->name);
  return order ? order : a->frame < b->frame ? -1 : a->frame > b->frame;
}

static int by_self(const void *left, const void *right) {
  const trace_function_t *a = left, *b = right;
  if (a->times.self_ns != b->times.self_ns) return a->times.self_ns > b->times.self_ns ? -1 : 1;
  return by_name(left, right);
}

/* The program's own functions come first, then calls that can block, then functions of libraries
 * and templates. Of libraries alone, which were asked for, those that can block come last. */
static int rank(const trace_view_t *v, const frame_name_t *name) {
  return name->own ? 0 : name_can_block(name) != has_only_libraries(v) ? 1 : 2;
}

static int by_total(const void *left, const void *right, void *view) {
  const trace_function_t *a = left, *b = right;
  int x = rank(view, a->name), y = rank(view, b->name);
  if (x != y) return x < y ? -1 : 1;
  if (a->total_ns != b->total_ns) return a->total_ns > b->total_ns ? -1 : 1;
  return by_self(left, right);
}

/* First sums by frame, then merges frames with equal names. */
static bool sum_functions(trace_view_t *v) {
  const trace_t *t = &v->trace;
  size_t frames, count = 0;
  const record_frame_t *all = reader_frames(v->report->reader, &frames);
  uint32_t *row = calloc(frames + 1, sizeof *row); /* the last one: unknown */
  v->functions = calloc(frames + 1, sizeof *v->functions);
  if (!row || !v->functions) {
    free(row);
    return false;
  }
  for (uint32_t n = 1; n < t->node_count; n++) {
    const trace_node_t *node = &t->nodes[n];
    if (!node->times.calls) continue;
    const record_frame_t *f = reader_frame(v->report->reader, node->frame);
    uint32_t *known = &row[f ? (size_t)(f - all) : frames];
    if (!*known) {
      v->functions[count].name = trace_node_name(v, n);
      v->functions[count].frame = node->frame;
      v->has_own |= v->functions[count].name->own;
      *known = (uint32_t)++count;
    }
    trace_function_t *function = &v->functions[*known - 1];
    trace_add_times(&function->times, &node->times);
    if (trace_is_recursive(t, n)) continue;
    function->total_ns += node->times.total_ns;
    function->wait_ns += node->times.wait_ns;
  }
  free(row);
  if (!count) return true;
  qsort(v->functions, count, sizeof *v->functions, by_name);
  size_t kept = 0;
  for (size_t i = 1; i < count; i++) {
    trace_function_t *a = &v->functions[kept], *b = &v->functions[i];
    if (!frame_name_compare(a->name, b->name)) {
      trace_add_times(&a->times, &b->times);
      a->total_ns += b->total_ns;
      a->wait_ns += b->wait_ns;
    } else {
      v->functions[++kept] = *b;
    }
  }
  v->function_count = kept + 1;
  if (v->report->functions_by == FUNCTIONS_BY_SELF)
    qsort(v->functions, v->function_count, sizeof *v->functions, by_self);
  else
    qsort_r(v->functions, v->function_count, sizeof *v->functions, by_total, v);
  return true;
}

/* ---- the filter ---------------------------------------------------------------------------- */

typedef struct function_filter {
  const report_t *report;
  function_sizes_t *sizes; /* NULL: no limit */
} function_filter_t;

/* Whether PATTERN matches the name as reports print it: whole, or without arguments. */
static bool matches(const char *pattern, const frame_name_t *name) {
  char text[REPORT_NAME_MAX];
  return fnmatch(pattern, name->function, 0) == 0 ||
         fnmatch(pattern, frame_name_text(name, false, 0, text, sizeof text), 0) == 0;
}

/* A function of unknown size is accepted. */
static bool accepts(void *context, const record_frame_t *f) {
  const function_filter_t *w = context;
  if (w->report->functions) {
    const frame_name_t *names;
    int count = frame_names_of_frame(w->report->names, f, &names);
    if (!matches(w->report->functions, &names[count - 1])) return false;
  }
  uint64_t size = w->sizes ? function_size_of(w->sizes, f) : 0;
  return size == 0 || size >= w->report->least_bytes;
}

static bool can_block(void *context, const record_frame_t *f) {
  const function_filter_t *w = context;
  const frame_name_t *names;
  int count = frame_names_of_frame(w->report->names, f, &names);
  return name_can_block(&names[count - 1]);
}

static int run(trace_view_t *v) {
  const report_t *r = v->report;
  function_filter_t wanted = {r, r->least_bytes ? function_sizes_new(r->reader) : NULL};
  if (r->least_bytes && !wanted.sizes) return SONDE_ENOMEM;
  trace_filter_t filter = r->calls;
  if (!filter.slowest) filter.slowest = r->all ? SLOWEST_OF_ALL : r->top;
  filter.context = &wanted;
  filter.can_block = can_block;
  /* The functions that the user chose are all meant, and the page has one list. */
  filter.waits_apart = !r->functions && !r->trace;
  if (r->functions || r->least_bytes) filter.accept = accepts;
  terminal_progress_t progress;
  terminal_progress_start(&progress, "reading calls", 0);
  filter.progress = terminal_progress_update;
  filter.progress_context = &progress;
  int status = trace_run(&v->trace, r->reader, &filter);
  terminal_progress_end(&progress);
  function_sizes_free(wanted.sizes);
  return status;
}

/* ---- the view -------------------------------------------------------------------------------- */

int trace_view_make(trace_view_t *v, const report_t *r) {
  memset(v, 0, sizeof *v);
  v->report = r;
  int status = run(v);
  if (status < 0) return status;
  for (size_t n = 0; n < v->trace.node_count; n++)
    v->has_waits |= v->trace.nodes[n].times.wait_ns > 0;
  if (sum_functions(v) && sort_nodes(v)) return 0;
  trace_view_free(v);
  return SONDE_ENOMEM;
}

void trace_view_free(trace_view_t *v) {
  trace_free(&v->trace);
  free(v->functions);
  free(v->order);
  free(v->first);
  memset(v, 0, sizeof *v);
}
