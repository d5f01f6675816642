/* SPDX-License-Identifier: MIT
 *
 * Section `trace`: traced calls by function, as a tree, and the slowest single calls.
 *
 * Wide text shows the distribution of the durations as bars: one bar for each factor of four from
 * 1 ns. The heading marks µs, ms and s. Lines of less than WIDE columns leave it out, and the
 * shortest call. The time in calls that can block takes the column of the longest call there: the
 * slowest calls have a list of their own.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/wrap.h"
#include "report/json.h"
#include "report/sections/trace_view.h"
#include "report/table.h"
#include "symbol/short_name.h"

enum { COLUMNS = 17, TREE_DEPTH = 48, INDENT_MAX = 120, STACK_SHOWN = 6, BRIEF_ROWS = 5 };
enum {
  WIDE = 120,
  NAME_COLUMN = 53,
  WIDE_NAME_COLUMN = 87,
  WIDE_WIDTH = 11,
  NOTE_COLUMN = 13,
  SPAN_WIDTH = 11,
  NOTE_MAX = 256
};

static bool is_wide(const report_t *r) { return !r->columns || r->columns >= WIDE; }

/* Where names begin. */
static int name_column(const trace_view_t *v) {
  return !is_wide(v->report) ? NAME_COLUMN : WIDE_NAME_COLUMN + (v->has_waits ? WIDE_WIDTH : 0);
}

static void print_heading(const trace_view_t *v, FILE *out) {
  const char *waits = v->has_waits ? "      waits" : "";
  if (is_wide(v->report))
    fprintf(out,
            "      total       self%s        calls       mean      least      worst"
            "  n    µ    m    s\n",
            waits);
  else if (v->has_waits)
    fprintf(out, "     total      self     waits      calls      mean\n");
  else
    fprintf(out, "     total      self      calls      mean     worst\n");
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Prints TEXT right-aligned in WIDTH columns; µ has two bytes and one column. */
static void print_right(const char *text, int width, FILE *out) {
  int columns = (int)wrap_columns(text, strlen(text));
  fprintf(out, "%*s%s", width > columns ? width - columns : 0, "", text);
}

static void print_duration(double ns, int width, FILE *out) {
  char text[24];
  print_right(ns < 0 ? "-" : report_duration(ns, text), width, out);
}

static void print_distribution(const trace_times_t *t, FILE *out) {
  static const char *const heights[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  uint64_t columns[COLUMNS] = {0}, most = 1;
  for (int i = 0; i < TRACE_BUCKETS; i++)
    columns[i / 2 < COLUMNS ? i / 2 : COLUMNS - 1] += t->buckets[i];
  for (int i = 0; i < COLUMNS; i++)
    if (columns[i] > most) most = columns[i];
  for (int i = 0; i < COLUMNS; i++)
    fputs(heights[columns[i] ? 1 + 7 * columns[i] / most : 0], out);
}

static void print_times(const trace_view_t *v, const trace_times_t *t, double total, double waits,
                        FILE *out) {
  const report_t *r = v->report;
  bool wide = is_wide(r), known = t->calls > t->open;
  int width = wide ? WIDE_WIDTH : 10;
  char count[24];
  print_duration(total, width, out);
  print_duration(t->self_ns, width, out);
  if (v->has_waits) print_duration(waits > 0 ? waits : -1, width, out);
  print_right(report_count(t->calls, count), wide ? 13 : 11, out);
  print_duration(known ? trace_mean_ns(t) : -1, width, out);
  if (wide) print_duration(known ? t->min_ns : -1, width, out);
  if (wide || !v->has_waits) print_duration(t->max_ns, width, out);
  fprintf(out, "  %s", r->dim);
  if (wide) print_distribution(t, out);
  fprintf(out, "%s%s", r->plain, wide ? "  " : "");
}

/* The name of a function, in the columns after COLUMN, and its library if there is space. */
static void print_name(const report_t *r, const frame_name_t *name, int column, bool library,
                       FILE *out) {
  char text[REPORT_NAME_MAX];
  int room = r->columns ? (int)r->columns - column : 0;
  fputs(report_name(r, name, room, text), out);
  int left = room - (int)wrap_columns(text, strlen(text)) - 2;
  if (library && name->known && *name->library &&
      (!r->columns || left >= (int)strlen(name->library)))
    fprintf(out, "  %s%s%s", r->dim, plain_text(name->library), r->plain);
  fputc('\n', out);
}

static void print_functions(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  size_t rows = report_rows(r, BRIEF_ROWS);
  fprintf(out, "%s%scalls by function%s\n", report_gap(r), r->bold, r->plain);
  print_heading(v, out);
  for (size_t i = 0; i < v->function_count && i < rows; i++) {
    const trace_function_t *f = &v->functions[i];
    print_times(v, &f->times, f->total_ns, f->wait_ns, out);
    print_name(r, f->name, name_column(v), true, out);
  }
  if (v->function_count > rows) report_more(v->report, v->function_count - rows, "functions", out);
}

/* ---- the tree ------------------------------------------------------------------------------- */

/* Prints the children that took at least 1 % of WHOLE, at most as many as the report shows, or all.
 * Waits that come last may be longer than children that are shown. */
static void print_children(const trace_view_t *v, uint32_t node, unsigned depth, double whole,
                           FILE *out) {
  uint32_t first = v->first[node], end = v->first[node + 1], shown = 0, left = 0;
  double least_shown = INFINITY, most_left = 0;
  for (uint32_t i = first; i < end; i++) {
    const trace_times_t *t = &v->trace.nodes[v->order[i]].times;
    if (!t->calls) continue;
    bool is_small = shown == v->report->top || t->total_ns < whole / 100 || depth > TREE_DEPTH;
    if (is_small && !v->report->all) {
      left++;
      most_left = fmax(most_left, t->total_ns);
      continue;
    }
    shown++;
    least_shown = fmin(least_shown, t->total_ns);
    print_times(v, t, t->total_ns, t->wait_ns, out);
    int indent = (int)(2 * (depth < INDENT_MAX ? depth : INDENT_MAX));
    fprintf(out, "%*s", indent, "");
    print_name(v->report, trace_node_name(v, v->order[i]), name_column(v) + indent, false, out);
    print_children(v, v->order[i], depth + 1, whole, out);
  }
  if (left)
    fprintf(out, "%*s… %" PRIu32 " more%s\n", (int)(2 * depth) + name_column(v), "", left,
            most_left <= least_shown ? ", shorter" : "");
}

/* The functions that the user asked for are the whole, so that long waits outside of them do not
 * hide them. */
static void print_tree(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  double whole = 0;
  bool only_waits = v->first[0] < v->first[1] && trace_is_wait_besides(v, v->order[v->first[0]]);
  for (uint32_t i = v->first[0]; i < v->first[1]; i++)
    if (trace_is_wait_besides(v, v->order[i]) == only_waits)
      whole += v->trace.nodes[v->order[i]].times.total_ns;
  fprintf(out, "\n%scall tree%s\n", r->bold, r->plain);
  print_heading(v, out);
  print_children(v, 0, 0, whole, out);
}

/* ---- single calls --------------------------------------------------------------------------- */

static void print_call(const trace_view_t *v, const trace_span_t *one, FILE *out) {
  const report_t *r = v->report;
  const record_thread_t *t = reader_thread(r->reader, one->stream);
  char waits[24], text[NOTE_MAX] = "", thread[96] = "";
  bool partly = one->wait_ns > 0 && one->wait_ns < one->took_ns;
  if (t) snprintf(thread, sizeof thread, "  thread %" PRIu32 " %.64s", t->tid, plain_text(t->name));
  snprintf(text, sizeof text, "%s%s%s%s  at %.6f s%s", partly ? ", " : "",
           partly ? report_duration(one->wait_ns, waits) : "", partly ? " of it in waits" : "",
           one->open ? " at least, not returned," : "", one->start_ns / 1e9, thread);
  print_duration(one->took_ns, SPAN_WIDTH, out);
  wrap_print(out, text, (wrap_t){SPAN_WIDTH, NOTE_COLUMN, r->columns, WRAP_ALL_LINES});
  uint32_t node = one->node;
  for (int k = 0; node && (r->all || k < STACK_SHOWN); k++, node = v->trace.nodes[node].parent) {
    fprintf(out, "%*s", NOTE_COLUMN, "");
    print_name(r, trace_node_name(v, node), NOTE_COLUMN, false, out);
  }
  uint32_t omitted = node ? v->trace.nodes[node].depth : 0;
  if (omitted)
    fprintf(out, "%*s… %" PRIu32 " more frame%s%s\n", NOTE_COLUMN, "", omitted,
            report_plural(omitted), report_rest(r));
}

static bool contains(const trace_span_t *outer, const trace_span_t *inner) {
  return outer != inner && outer->stream == inner->stream && outer->depth < inner->depth &&
         outer->start_ns <= inner->start_ns &&
         outer->start_ns + outer->took_ns >= inner->start_ns + inner->took_ns;
}

/* Whether a call inside of ONE is listed, whose callers say the same and more. */
static bool is_listed_inside(const trace_t *t, const trace_span_t *one) {
  for (size_t i = 0; i < t->waits_count; i++)
    if (contains(one, &t->waits[i])) return true;
  return false;
}

/* Calls that only waited come apart, so that they do not hide what worked. */
static void print_slowest(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  const trace_t *t = &v->trace;
  size_t shown = 0, most = t->slowest_count && !r->all ? (r->top + 1) / 2 : r->top;
  fprintf(out, "\n%sslowest calls%s\n", r->bold, r->plain);
  for (size_t i = 0; i < t->slowest_count; i++)
    print_call(v, &t->slowest[i], out);
  if (t->slowest_count && t->waits_count) fprintf(out, "\n%slongest waits%s\n", r->bold, r->plain);
  for (size_t i = 0; i < t->waits_count && shown < most; i++) {
    if (is_listed_inside(t, &t->waits[i])) continue;
    print_call(v, &t->waits[i], out);
    shown++;
  }
}

__attribute__((format(printf, 4, 5))) static void
print_note(const report_t *r, FILE *out, const char *label, const char *format, ...) {
  char text[NOTE_MAX];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  fprintf(out, "  %-*s", NOTE_COLUMN - 2, label);
  wrap_print(out, text, (wrap_t){NOTE_COLUMN, NOTE_COLUMN, r->columns, WRAP_ALL_LINES});
}

/* Functions patched at run time, and why others were not. */
static void print_patched(const report_t *r, FILE *out) {
  uint64_t patched = reader_patched(r->reader, MOVE_OK);
  char n[24];
  if (patched)
    fprintf(out, "  patched    %s function%s at run time\n", report_count(patched, n),
            patched == 1 ? "" : "s");
  for (uint32_t i = 1; i < MOVE_FAULT_COUNT; i++) {
    uint64_t count = reader_patched(r->reader, (move_fault_t)i);
    if (!count) continue;
    print_note(r, out, "unpatched", "%s function%s: %s", report_count(count, n),
               count == 1 ? "" : "s", move_fault_texts[i]);
  }
}

static json_object *patched_json(const reader_t *reader) {
  json_object *o = json_new_object();
  for (uint32_t i = 0; i < MOVE_FAULT_COUNT; i++) {
    uint64_t count = reader_patched(reader, (move_fault_t)i);
    if (count) json_add_count(o, i ? move_fault_keys[i] : "patched", count);
  }
  return o;
}

/* What was not recorded. */
static void print_limits(const report_t *r, FILE *out) {
  call_limits_t limits = reader_call_limits(r->reader);
  char least[24];
  if (limits.least_ns)
    fprintf(out, "  recorded   only calls of at least %s\n",
            report_duration((double)limits.least_ns, least));
  if (limits.depth)
    fprintf(out, "  recorded   only the %" PRIu64 " outermost level%s of calls\n", limits.depth,
            limits.depth == 1 ? "" : "s");
}

static json_object *limits_json(const reader_t *reader) {
  call_limits_t limits = reader_call_limits(reader);
  json_object *o = json_new_object();
  if (limits.least_ns) json_add_count(o, "least_ns", limits.least_ns);
  if (limits.depth) json_add_count(o, "depth", limits.depth);
  return o;
}

static void print_head(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  const trace_t *t = &v->trace;
  char a[24], b[24], c[24];
  uint64_t bytes = calls_bytes(r->reader);
  fprintf(out, "\n%scalls%s\n  traced     %s in %" PRIu32 " thread%s; %s, %.1f bytes a call\n",
          r->bold, r->plain, report_count(t->calls, a), t->threads, t->threads == 1 ? "" : "s",
          report_bytes((int64_t)bytes, b), t->calls ? (double)bytes / (double)t->calls : 0);
  print_limits(r, out);
  if (!t->calls && !t->unknown && r->calls.tid)
    fprintf(out, "  note       no call of thread %" PRIu64 " was traced\n", r->calls.tid);
  else if (!t->calls && !t->unknown)
    print_note(r, out, "note",
               "no traced function was called: none was instrumented, or none matched the pattern; "
               "record with --trace='!*' to trace all functions of the program");
  if (t->shown != t->calls + t->unknown)
    fprintf(out, "  shown      %s\n", report_count(t->shown, a));
  bool notes = !report_is_tight(r);
  if (t->cost.pair > 0 && notes)
    print_note(r, out, "overhead",
               "tracing adds %.1f ns to a call, %.1f ns of it inside the call: %s", t->cost.pair,
               t->cost.inside, r->calls.net ? "subtracted" : "not subtracted (--net does)");
  if (t->shown && notes)
    print_note(r, out, "times", "%s",
               v->has_waits
                   ? "elapsed; waits: in calls that can block (locks, sleep, poll, read, write), "
                     "which self leaves out"
                   : "elapsed, with the time in which the thread waited");
  print_patched(r, out);
  if (t->left || t->open)
    print_note(r, out, "ended",
               "%s calls by longjmp or an exception; %s had not returned, their time is a minimum",
               report_count(t->left, a), report_count(t->open, b));
  if (t->lost || t->unmatched || t->unknown)
    print_note(r, out, "missing",
               "%s lost events; %s returns without a recorded call; %s unknown open calls",
               report_count(t->lost, a), report_count(t->unmatched, b),
               report_count(t->unknown, c));
}

/* ---- JSON --------------------------------------------------------------------------------- */

static const column_t times_columns[] = {
    {"calls", NULL, UNIT_COUNT, FIELD(trace_times_t, calls)},
    {"self_ns", NULL, UNIT_NS, FIELD(trace_times_t, self_ns)},
    {"open", NULL, UNIT_COUNT, FIELD(trace_times_t, open), .optional = true},
    {"worst_ns", NULL, UNIT_NS, FIELD(trace_times_t, max_ns)},
    {0}};

static const column_t call_columns[] = {
    {"node", NULL, UNIT_COUNT, FIELD(trace_span_t, node)},
    {"start_ns", NULL, UNIT_NS, FIELD(trace_span_t, start_ns)},
    {"took_ns", NULL, UNIT_NS, FIELD(trace_span_t, took_ns)},
    {"waits_ns", NULL, UNIT_NS, FIELD(trace_span_t, wait_ns)},
    {"tid", NULL, UNIT_STREAM, FIELD(trace_span_t, stream)},
    {"open", NULL, UNIT_FLAG, FIELD(trace_span_t, open), .optional = true},
    {0}};

static const column_t total_columns[] = {{"calls", NULL, UNIT_COUNT, FIELD(trace_t, calls)},
                                         {"shown", NULL, UNIT_COUNT, FIELD(trace_t, shown)},
                                         {"threads", NULL, UNIT_COUNT, FIELD(trace_t, threads)},
                                         {"left", NULL, UNIT_COUNT, FIELD(trace_t, left)},
                                         {"open", NULL, UNIT_COUNT, FIELD(trace_t, open)},
                                         {"lost", NULL, UNIT_COUNT, FIELD(trace_t, lost)},
                                         {"unmatched", NULL, UNIT_COUNT, FIELD(trace_t, unmatched)},
                                         {"unknown", NULL, UNIT_COUNT, FIELD(trace_t, unknown)},
                                         {0}};

static void add_ns(json_object *o, const char *key, double ns) {
  json_add_count(o, key, ns > 0 && ns < 9e18 ? (uint64_t)(ns + 0.5) : 0);
}

static void add_times(const report_t *r, json_object *o, const trace_times_t *t, double total,
                      double waits) {
  table_row_json(r, times_columns, t, o);
  add_ns(o, "total_ns", total);
  if (waits > 0) add_ns(o, "waits_ns", waits);
  if (t->calls > t->open) {
    add_ns(o, "least_ns", t->min_ns);
    add_ns(o, "mean_ns", trace_mean_ns(t));
  }
  json_object *list = json_new_array();
  for (int i = 0; i < TRACE_BUCKETS; i++) {
    if (!t->buckets[i]) continue;
    json_object *row = json_new_object();
    json_add_count(row, "at_least_ns", i ? UINT64_C(1) << i : 0);
    json_add_count(row, "calls", t->buckets[i]);
    json_append(list, row);
  }
  json_add(o, "histogram", list);
}

static json_object *functions_json(const trace_view_t *v) {
  json_object *list = json_new_array();
  for (size_t i = 0; i < v->function_count; i++) {
    json_object *row = json_new_object();
    report_function_json(v->functions[i].name, row);
    add_times(v->report, row, &v->functions[i].times, v->functions[i].total_ns,
              v->functions[i].wait_ns);
    json_append(list, row);
  }
  return list;
}

/* A flat list, because a tree may be deeper than a JSON parser allows. */
static json_object *nodes_json(const trace_view_t *v) {
  json_object *list = json_new_array();
  for (uint32_t n = 1; n < v->trace.node_count; n++) {
    const trace_node_t *node = &v->trace.nodes[n];
    json_object *row = json_new_object();
    json_add_count(row, "node", n);
    json_add_count(row, "parent", node->parent);
    report_function_json(trace_node_name(v, n), row);
    add_times(v->report, row, &node->times, node->times.total_ns, node->times.wait_ns);
    json_append(list, row);
  }
  return list;
}

static json_object *spans_json(const trace_view_t *v, const trace_span_t *spans, size_t count) {
  json_object *list = json_new_array();
  for (size_t i = 0; i < count; i++) {
    json_object *row = json_new_object();
    report_function_json(trace_frame_name(v->report, spans[i].frame), row);
    table_row_json(v->report, call_columns, &spans[i], row);
    json_append(list, row);
  }
  return list;
}

static json_object *view_json(const trace_view_t *v) {
  const report_t *r = v->report;
  json_object *o = json_new_object(), *tracer = json_new_object();
  table_row_json(r, total_columns, &v->trace, o);
  json_add_count(o, "bytes", calls_bytes(r->reader));
  json_add(tracer, "pair_ns", json_object_new_double(v->trace.cost.pair));
  json_add(tracer, "inside_ns", json_object_new_double(v->trace.cost.inside));
  json_add_flag(tracer, "subtracted", r->calls.net);
  json_add(o, "tracer", tracer);
  json_add(o, "recorded_only", limits_json(r->reader));
  json_add(o, "run_time_patches", patched_json(r->reader));
  json_add(o, "functions", functions_json(v));
  if (r->trace) return o;
  json_add(o, "nodes", nodes_json(v));
  json_add(o, "slowest", spans_json(v, v->trace.slowest, v->trace.slowest_count));
  json_add(o, "longest_waits", spans_json(v, v->trace.waits, v->trace.waits_count));
  return o;
}

/* ---- the section ---------------------------------------------------------------------------- */

static bool has_data(const report_t *r, void *state) {
  (void)state;
  return calls_bytes(r->reader) != 0;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  (void)state;
  trace_view_t v;
  int status = trace_view_make(&v, r);
  if (status < 0) return status;
  print_head(&v, out);
  if (v.trace.shown && !r->tree) print_functions(&v, out);
  if (v.trace.shown && !r->brief) print_tree(&v, out);
  if (v.trace.shown && !r->brief && !r->tree) print_slowest(&v, out);
  trace_view_free(&v);
  return 0;
}

static json_object *make_json(const report_t *r, void *state) {
  (void)state;
  trace_view_t v;
  if (trace_view_make(&v, r) < 0) return NULL;
  json_object *o = view_json(&v);
  if (r->trace) {
    *r->trace = v.trace;
    v.trace = (trace_t){0};
  }
  trace_view_free(&v);
  return o;
}

const report_section_t section_trace = {.name = "trace",
                                        .option = "--trace",
                                        .mode = RECORD_CALLS,
                                        .has_data = has_data,
                                        .text = print_text,
                                        .json = make_json};
