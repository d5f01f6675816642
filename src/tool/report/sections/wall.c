/* SPDX-License-Identifier: MIT
 *
 * Section `wall`: where all threads spent their time, blocked or on a CPU.
 */
#include "analysis/wall.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wrap.h"
#include "report/functions.h"
#include "report/futex_wait.h"
#include "report/json.h"
#include "report/table.h"
#include "report/tree.h"
#include "sonde/status.h"

#define UNREAD_SHOWN 10u /* in a summary: one sample in so many */

enum { BRIEF_ROWS = 5 };

static const column_t thread_columns[] = {
    {"seen_ns", "wall", UNIT_SECONDS, FIELD(wall_thread_t, seen_ns)},
    {"cpu_ns", "on a CPU", UNIT_SHARE, FIELD(wall_thread_t, run_ns), BASE(wall_thread_t, seen_ns)},
    {"waited_for_cpu_ns", "waiting for a CPU", UNIT_SHARE, FIELD(wall_thread_t, runq_ns),
     BASE(wall_thread_t, seen_ns)},
    {"blocked_ns", "blocked", UNIT_SHARE, FIELD(wall_thread_t, blocked_ns),
     BASE(wall_thread_t, seen_ns)},
    {"samples", NULL, UNIT_COUNT, FIELD(wall_thread_t, samples)},
    {"tid", "thread", UNIT_ID, FIELD(wall_thread_t, tid)},
    {"name", "", UNIT_TEXT, FIELD(wall_thread_t, name)},
    {0}};

/* A place as the report shows it. */
typedef struct place_row {
  const char *where, *call, *called;
  const char *shown; /* `called`, or the system call if that is unknown */
  uint64_t ns, samples;
  uint32_t stack;
} place_row_t;

static const column_t place_columns[] = {
    {NULL, "share", UNIT_SHARE, FIELD(place_row_t, ns)},
    {"time_ns", "time", UNIT_SECONDS, FIELD(place_row_t, ns)},
    {"where", "where", UNIT_TEXT, FIELD(place_row_t, where)},
    {"syscall", NULL, UNIT_TEXT, FIELD(place_row_t, call), .optional = true},
    {"called", NULL, UNIT_NAME, FIELD(place_row_t, called), .optional = true},
    {NULL, "called", UNIT_NAME, FIELD(place_row_t, shown), .optional = true},
    {"samples", NULL, UNIT_COUNT, FIELD(place_row_t, samples)},
    {"stack", "stack", UNIT_STACK, FIELD(place_row_t, stack), .optional = true},
    {0}};

static wall_thread_t sum_of(const wall_t *w) {
  wall_thread_t sum = {0};
  for (size_t i = 0; i < w->thread_count; i++) {
    const wall_thread_t *t = &w->threads[i];
    sum.seen_ns += t->seen_ns;
    sum.run_ns += t->run_ns;
    sum.runq_ns += t->runq_ns;
    sum.blocked_ns += t->blocked_ns;
    sum.samples += t->samples;
  }
  return sum;
}

/* The caller frees the rows. False: out of memory. */
static bool make_places(const report_t *r, const wall_t *w, table_t *out) {
  place_row_t *rows = calloc(w->places.count + 1, sizeof *rows);
  for (size_t i = 0; rows && i < w->places.count; i++) {
    const wall_place_t *p = &w->places.items[i];
    const char *called = p->call && *p->call ? wait_called(r, p->stack, p->call) : "";
    rows[i] = (place_row_t){.where = p->call ? "blocked" : "cpu",
                            .call = p->call ? p->call : "",
                            .called = wait_is_shown(r, p->stack) ? called : "",
                            .shown = called,
                            .ns = p->ns,
                            .samples = p->samples,
                            .stack = p->stack};
  }
  *out = (table_t){TABLE(place_columns, rows, w->places.count), .whole = sum_of(w).seen_ns};
  return rows != NULL;
}

/* ---- the places of a summary --------------------------------------------------------------- */

typedef struct owned_row {
  place_row_t row;
  const char *function; /* that owns the stack */
} owned_row_t;

static int by_text(const char *a, const char *b) { return a == b ? 0 : strcmp(a, b); }

static int by_owner(const void *left, const void *right) {
  const owned_row_t *a = left, *b = right;
  int order = by_text(a->function, b->function);
  if (!order) order = by_text(a->row.where, b->row.where);
  if (!order) order = by_text(a->row.shown, b->row.shown);
  if (order || a->row.ns == b->row.ns) return order;
  return a->row.ns > b->row.ns ? -1 : 1;
}

static int by_time(const void *left, const void *right) {
  const place_row_t *a = left, *b = right;
  return a->ns == b->ns ? 0 : a->ns > b->ns ? -1 : 1;
}

/* A summary names the function that owns a stack, and not the stack: rows that show the same become
 * one, with the stack of the longest. False: out of memory. */
static bool merge_places(const report_t *r, place_row_t *rows, size_t *count) {
  owned_row_t *owned = calloc(*count + 1, sizeof *owned);
  if (!owned) return false;
  for (size_t i = 0; i < *count; i++) {
    const frame_name_t *owner = rows[i].stack ? frame_names_owner(r->names, rows[i].stack) : NULL;
    owned[i] = (owned_row_t){rows[i], owner ? owner->function : ""};
  }
  qsort(owned, *count, sizeof *owned, by_owner);
  size_t merged = 0;
  for (size_t i = 0; i < *count; i++) {
    const owned_row_t *o = &owned[i];
    bool is_new = !i || by_text(o[-1].function, o->function) ||
                  by_text(o[-1].row.where, o->row.where) || by_text(o[-1].row.shown, o->row.shown);
    if (is_new) {
      rows[merged++] = o->row;
    } else {
      rows[merged - 1].ns += o->row.ns;
      rows[merged - 1].samples += o->row.samples;
    }
  }
  *count = merged;
  qsort(rows, merged, sizeof *rows, by_time);
  free(owned);
  return true;
}

static bool fill_tree(tree_t *tree, const void *context) {
  const wall_t *w = context;
  bool good = true;
  for (size_t i = 0; good && i < w->places.count; i++) {
    const wall_place_t *p = &w->places.items[i];
    if (p->stack) good = tree_add(tree, p->stack, (int64_t)(p->ns / 1000), (int64_t)p->samples);
  }
  return good;
}

static completeness_t completeness_of(const report_t *r, const wall_t *w) {
  completeness_t c = {0};
  for (size_t i = 0; i < w->places.count; i++)
    if (w->places.items[i].stack)
      report_add_stack(r, &c, w->places.items[i].stack, w->places.items[i].ns);
  return c;
}

static int print_functions(const report_t *r, const wall_t *w, FILE *out) {
  function_sums_t f = {.whole = sum_of(w).seen_ns};
  bool good = true;
  for (size_t i = 0; good && i < w->places.count; i++)
    if (w->places.items[i].stack)
      good = functions_add(r, &f, w->places.items[i].stack, w->places.items[i].ns);
  if (good) functions_text(r, &f, "wall time", out);
  functions_free(&f);
  return good ? 0 : SONDE_ENOMEM;
}

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static int print_text(const report_t *r, void *state, FILE *out) {
  wall_t *w = state;
  char a[24], b[24];
  table_t places;
  if (!wall_rank(w)) return SONDE_ENOMEM;
  size_t most = report_rows(r, BRIEF_ROWS);
  wall_thread_t sum = sum_of(w);
  fprintf(out, "\n%swall time%s\n  total      %.2f s", r->bold, r->plain, seconds(sum.seen_ns));
  if (!r->brief)
    fprintf(out, " in %zu thread%s\n  divided    ", w->thread_count,
            w->thread_count == 1 ? "" : "s");
  fprintf(out, "%s%.2f s on a CPU, %.2f s waiting for %s, %.2f s blocked\n", r->brief ? ": " : "",
          seconds(sum.run_ns), seconds(sum.runq_ns), r->brief ? "one" : "a CPU",
          seconds(sum.blocked_ns));
  if (!r->brief || w->unread_samples * UNREAD_SHOWN > sum.samples) {
    char unread[96] = "";
    if (w->unread_samples)
      snprintf(unread, sizeof unread, "; the stacks of %s (%.2f s) could not be read",
               report_count(w->unread_samples, b), seconds(w->unread_ns));
    wrap_format(out, (wrap_t){.indent = 13, .columns = r->columns},
                "  samples    %s of blocked threads%s\n", report_count(sum.samples, a), unread);
  }
  const completeness_t complete = completeness_of(r, w);
  report_completeness_text(r, &complete, "the time", out);
  if (r->tree) return tree_print(r, fill_tree, w, "where threads spent time", "µs", out);
  if (!r->brief || (w->thread_count > 1 && !report_is_tight(r))) {
    const table_t threads = {TABLE(thread_columns, w->threads, w->thread_count)};
    fputs(report_gap(r), out);
    table_text(r, &threads, most, "threads", out);
  }
  if (!w->places.count) return 0;
  if (!r->brief && print_functions(r, w, out) < 0) return SONDE_ENOMEM;
  if (!make_places(r, w, &places)) return SONDE_ENOMEM;
  void *rows = (void *)(uintptr_t)places.rows;
  bool good = !r->brief || merge_places(r, rows, &places.count);
  fprintf(out, "%s%swhere threads spent time, by %s%s\n", report_gap(r), r->bold,
          r->brief ? "function" : "stack", r->plain);
  if (good) table_text(r, &places, most, "", out);
  free(rows);
  return good ? 0 : SONDE_ENOMEM;
}

static json_object *make_json(const report_t *r, void *state) {
  wall_t *w = state;
  table_t places;
  if (!wall_rank(w) || !make_places(r, w, &places)) return NULL;
  const table_t threads = {TABLE(thread_columns, w->threads, w->thread_count)};
  wall_thread_t sum = sum_of(w);
  json_object *o = json_new_object();
  json_add_count(o, "seen_ns", sum.seen_ns);
  json_add_count(o, "cpu_ns", sum.run_ns);
  json_add_count(o, "waited_for_cpu_ns", sum.runq_ns);
  json_add_count(o, "blocked_ns", sum.blocked_ns);
  json_add_count(o, "samples", sum.samples);
  json_add_count(o, "unread_samples", w->unread_samples);
  json_add_count(o, "unread_ns", w->unread_ns);
  json_add_count(o, "complete_ns", completeness_of(r, w).complete);
  json_add(o, "threads", table_json(r, &threads, r->top));
  if (r->tree) tree_add_json(r, fill_tree, w, o);
  json_add(o, "stacks", table_json(r, &places, r->top));
  free((void *)(uintptr_t)places.rows);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static void *start(const report_t *r) {
  wall_t *w = calloc(1, sizeof *w);
  if (w) w->reader = r->reader;
  return w;
}

static bool add_event(void *state, const record_event_t *e) { return wall_add(state, e); }

static bool has_data(const report_t *r, void *state) {
  (void)r;
  return ((const wall_t *)state)->recorded;
}

static void end(void *state) {
  wall_free(state);
  free(state);
}

const report_section_t section_wall = {.name = "wall",
                                       .option = "--wall",
                                       .start = start,
                                       .event = add_event,
                                       .has_data = has_data,
                                       .text = print_text,
                                       .json = make_json,
                                       .end = end};
