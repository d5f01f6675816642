/* SPDX-License-Identifier: MIT
 *
 * The traced calls as text: by function, as a tree, and the slowest single ones.
 *
 * Beside the times stands how they are spread: a column for each factor of four from 1 ns on, µs,
 * ms and s being marked in the heading, as high as calls are many.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/json.h"
#include "report/sections/trace_view.h"

enum { COLUMNS = 17, TREE_DEPTH = 48, STACK_SHOWN = 6, BRIEF_ROWS = 5 };

static const char heading[] = "      total       self        calls       mean      least      worst"
                              "  n    µ    m    s   ";

/* ---- rows ----------------------------------------------------------------------------------- */

/* A number of at most WIDTH columns to the right; a µ is two bytes and one column. */
static void put_right(const char *text, int width, FILE *out) {
  int columns = 0;
  for (const char *p = text; *p; p++)
    columns += (*p & 0xc0) != 0x80;
  fprintf(out, "%*s%s", width > columns ? width - columns : 0, "", text);
}

static void put_duration(double ns, FILE *out) {
  char text[24];
  put_right(report_duration(ns, text), 11, out);
}

static void put_spread(const trace_times_t *t, FILE *out) {
  static const char *const heights[] = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  uint64_t columns[COLUMNS] = {0}, most = 1;
  for (int i = 0; i < TRACE_BUCKETS; i++)
    columns[i / 2 < COLUMNS ? i / 2 : COLUMNS - 1] += t->buckets[i];
  for (int i = 0; i < COLUMNS; i++)
    if (columns[i] > most) most = columns[i];
  for (int i = 0; i < COLUMNS; i++)
    fputs(heights[columns[i] ? 1 + 7 * columns[i] / most : 0], out);
}

static void put_times(const report_t *r, const trace_times_t *t, double total, FILE *out) {
  char count[24];
  put_duration(total, out);
  put_duration(t->self_ns, out);
  put_right(report_count(t->calls, count), 13, out);
  put_duration(t->calls ? t->total_ns / (double)t->calls : 0, out);
  put_duration(t->min_ns, out);
  put_duration(t->max_ns, out);
  fprintf(out, "  %s", r->dim);
  put_spread(t, out);
  fprintf(out, "%s  ", r->plain);
}

static void put_functions(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  size_t rows = r->brief && r->top > BRIEF_ROWS ? BRIEF_ROWS : r->top;
  fprintf(out, "\n%scalls by function%s\n%s\n", r->bold, r->plain, heading);
  for (size_t i = 0; i < v->function_count && i < rows; i++) {
    const trace_function_t *f = &v->functions[i];
    put_times(r, &f->times, f->total_ns, out);
    fprintf(out, "%s", f->name->function);
    if (f->name->known && *f->name->library)
      fprintf(out, "  %s%s%s", r->dim, f->name->library, r->plain);
    fputc('\n', out);
  }
  if (v->function_count > rows)
    fprintf(out, "  … and %zu more functions\n", v->function_count - rows);
}

/* ---- the tree ------------------------------------------------------------------------------- */

/* Children that took a hundredth of WHOLE, at most as many as a list shows. */
static void put_children(const trace_view_t *v, uint32_t node, unsigned depth, double whole,
                         FILE *out) {
  uint32_t first = v->first[node], end = v->first[node + 1], shown = 0, left = 0;
  for (uint32_t i = first; i < end; i++) {
    const trace_times_t *t = &v->trace.nodes[v->order[i]].times;
    if (!t->calls) continue;
    if (shown == v->report->top || t->total_ns < whole / 100 || depth > TREE_DEPTH) {
      left++;
      continue;
    }
    shown++;
    put_times(v->report, t, t->total_ns, out);
    fprintf(out, "%*s%s\n", (int)(2 * depth), "", trace_node_name(v, v->order[i])->function);
    put_children(v, v->order[i], depth + 1, whole, out);
  }
  if (left)
    fprintf(out, "%*s… %" PRIu32 " more that took less\n", (int)(2 * depth + sizeof heading - 4),
            "", left);
}

static void put_tree(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  double whole = 0;
  for (uint32_t i = v->first[0]; i < v->first[1]; i++)
    whole += v->trace.nodes[v->order[i]].times.total_ns;
  fprintf(out, "\n%scall tree%s\n%s\n", r->bold, r->plain, heading);
  put_children(v, 0, 0, whole, out);
}

/* ---- single calls --------------------------------------------------------------------------- */

static void put_slowest(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  fprintf(out, "\n%sslowest calls%s\n", r->bold, r->plain);
  for (size_t i = 0; i < v->trace.slowest_count; i++) {
    const trace_span_t *one = &v->trace.slowest[i];
    const record_thread_t *t = reader_thread(r->reader, one->stream);
    put_duration(one->took_ns, out);
    fprintf(out, "%s  at %.6f s", one->open ? ", not ended," : "", one->start_ns / 1e9);
    if (t) fprintf(out, "  thread %" PRIu32 " %s", t->tid, t->name);
    fputc('\n', out);
    uint32_t node = one->node;
    for (int k = 0; node && k < STACK_SHOWN; k++, node = v->trace.nodes[node].parent)
      fprintf(out, "             %s\n", trace_node_name(v, node)->function);
    if (node) fprintf(out, "             … %" PRIu32 " more\n", v->trace.nodes[node].depth);
  }
}

static void put_head(const trace_view_t *v, FILE *out) {
  const report_t *r = v->report;
  const trace_t *t = &v->trace;
  char a[24], b[24], c[24];
  uint64_t bytes = calls_bytes(r->reader);
  fprintf(out, "\n%scalls%s\n  traced     %s in %" PRIu32 " thread%s; %s, %.1f bytes a call\n",
          r->bold, r->plain, report_count(t->calls, a), t->threads, t->threads == 1 ? "" : "s",
          report_bytes((int64_t)bytes, b), t->calls ? (double)bytes / (double)t->calls : 0);
  if (!t->calls && !t->unknown && r->calls.tid)
    fprintf(out, "  note       no call of thread %" PRIu64 " was traced\n", r->calls.tid);
  else if (!t->calls && !t->unknown)
    fprintf(out, "  note       no function was called that was compiled to be traced, or that the "
                 "pattern names; see 'sonde help record'\n");
  if (t->shown != t->calls + t->unknown)
    fprintf(out, "  shown      %s\n", report_count(t->shown, a));
  if (t->cost.pair > 0)
    fprintf(out, "  tracer     adds %.1f ns to a call, %.1f ns of it within the call: %s\n",
            t->cost.pair, t->cost.inside,
            r->calls.net ? "taken off" : "not taken off (--net does)");
  if (t->left || t->open)
    fprintf(out, "  ended      %s by longjmp or an exception; %s had not ended\n",
            report_count(t->left, a), report_count(t->open, b));
  if (t->lost || t->unmatched || t->unknown)
    fprintf(out, "  missing    %s events lost; %s ends of calls that began before, %s such calls\n",
            report_count(t->lost, a), report_count(t->unmatched, b), report_count(t->unknown, c));
}

/* ---- the section ---------------------------------------------------------------------------- */

static bool holds(const report_t *r, void *state) {
  (void)state;
  return calls_bytes(r->reader) != 0;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  (void)state;
  trace_view_t v;
  int status = trace_view_make(&v, r);
  if (status < 0) return status;
  put_head(&v, out);
  if (v.trace.shown && !r->tree) put_functions(&v, out);
  if (v.trace.shown && !r->brief) put_tree(&v, out);
  if (v.trace.shown && !r->brief && !r->tree) put_slowest(&v, out);
  trace_view_free(&v);
  return 0;
}

static json_object *make_json(const report_t *r, void *state) {
  (void)state;
  trace_view_t v;
  if (trace_view_make(&v, r) < 0) return NULL;
  json_object *o = trace_view_json(&v);
  trace_view_free(&v);
  return o;
}

const report_section_t section_trace = {.name = "trace",
                                        .option = "--trace",
                                        .mode = RECORD_CALLS,
                                        .holds = holds,
                                        .text = print_text,
                                        .json = make_json};
