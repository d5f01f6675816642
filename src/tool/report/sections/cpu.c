/* SPDX-License-Identifier: MIT
 *
 * Section `cpu`: CPU use of each thread, and the code that ran while a thread or the process
 * exceeded the limit of `--cpu`.
 */
#include "analysis/cpu.h"
#include "analysis/summary/summary.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/table.h"
#include "report/tree.h"
#include "sonde/status.h"
#include "symbol/short_name.h"

enum { BRIEF_ROWS = 3 };

static const column_t thread_columns[] = {
    {"cpu_ns", "CPU time", UNIT_SECONDS, FIELD(cpu_sum_t, run_ns)},
    {NULL, "of a CPU", UNIT_SHARE, FIELD(cpu_sum_t, run_ns), BASE(cpu_sum_t, seen_ns)},
    {"sampled_ns", "sampled", UNIT_SHARE, FIELD(cpu_sum_t, sampled_ns), BASE(cpu_sum_t, run_ns)},
    {"unsampled_ns", NULL, UNIT_COUNT, FIELD(cpu_sum_t, unsampled_ns)},
    {"waited_for_cpu_ns", "CPU wait", UNIT_SECONDS, FIELD(cpu_sum_t, runq_ns)},
    {"wakeups", "wake-ups/s", UNIT_RATE, FIELD(cpu_sum_t, wakeups), BASE(cpu_sum_t, seen_ns)},
    {"seen_ns", NULL, UNIT_COUNT, FIELD(cpu_sum_t, seen_ns)},
    {"tid", "thread", UNIT_ID, FIELD(cpu_sum_t, tid)},
    {"name", "", UNIT_TEXT, FIELD(cpu_sum_t, name)},
    {0}};

static const column_t episode_columns[] = {
    {"tid", NULL, UNIT_COUNT, FIELD(cpu_use_episode_t, tid), .optional = true},
    {"name", NULL, UNIT_TEXT, FIELD(cpu_use_episode_t, name), .optional = true},
    {"to_ns", NULL, UNIT_TICKS, FIELD(cpu_use_episode_t, to)},
    {"time_ns", NULL, UNIT_COUNT, FIELD(cpu_use_episode_t, time_ns)},
    {"cpu_ns", NULL, UNIT_COUNT, FIELD(cpu_use_episode_t, cpu_ns)},
    {0}};

static int by_run(const void *left, const void *right) {
  const cpu_sum_t *a = left, *b = right;
  if (a->run_ns != b->run_ns) return a->run_ns > b->run_ns ? -1 : 1;
  return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static table_t threads_of(cpu_use_t *u) {
  if (u->sum_count) qsort(u->sums, u->sum_count, sizeof *u->sums, by_run);
  return (table_t){TABLE(thread_columns, u->sums, u->sum_count)};
}

/* ---- episodes ----------------------------------------------------------------------------- */

typedef struct episode_view {
  report_t report; /* with a direction for the tree, which is top-down by default here */
  const cpu_use_t *use;
  const cpu_use_episode_t *episode;
} episode_view_t;

static episode_view_t view_of(const report_t *r, const cpu_use_t *u, const cpu_use_episode_t *e) {
  episode_view_t view = {*r, u, e};
  if (view.report.tree == TREE_NONE) view.report.tree = TREE_TOP_DOWN;
  return view;
}

static bool fill_tree(tree_t *tree, const void *context) {
  const episode_view_t *v = context;
  bool good = true;
  for (size_t i = 0; good && i < v->use->tick_count; i++) {
    const cpu_tick_t *tick = &v->use->ticks[i];
    if (cpu_tick_in(v->report.reader, tick, v->episode))
      good = tree_add(tree, tick->stack, (int64_t)tick->ticks, (int64_t)tick->ticks);
  }
  return good;
}

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static int print_episode(const report_t *r, const cpu_use_t *u, const cpu_use_episode_t *e,
                         FILE *out) {
  double to = seconds(reader_ns(r->reader, e->to)), time = seconds(e->time_ns);
  fprintf(out, "%s  %s", report_gap(r), r->bold);
  if (e->tid)
    fprintf(out, "thread %" PRIu32 " (%s)", e->tid, plain_text(e->name));
  else
    fprintf(out, "all threads");
  fprintf(out, "%s: %.0f %% of a CPU for %.1f s, from %.1f to %.1f s\n", r->plain,
          e->time_ns ? 100.0 * (double)e->cpu_ns / (double)e->time_ns : 0, time, to - time, to);
  if (r->brief || (!e->tid && u->sum_count == 1)) return 0;
  episode_view_t view = view_of(r, u, e);
  return tree_print(&view.report, fill_tree, &view, "where it ran", "samples", out);
}

/* ---- the section -------------------------------------------------------------------------- */

static int print_text(const report_t *r, void *state, FILE *out) {
  cpu_use_t *u = state;
  size_t most = report_rows(r, BRIEF_ROWS);
  int status = 0;
  if (!cpu_use_complete(u, r->cpu_time)) return SONDE_ENOMEM;
  const table_t threads = threads_of(u);
  fprintf(out, "\n%sCPU use%s\n  program    %.2f s of CPU time\n%s", r->bold, r->plain,
          seconds(u->process_ns), report_gap(r));
  table_text(r, &threads, most, "threads", out);
  for (size_t i = 0; i < u->episode_count && i < most && status == 0; i++)
    status = print_episode(r, u, &u->episodes[i], out);
  return status;
}

static json_object *threads_json(const report_t *r, const cpu_use_t *u, const table_t *threads) {
  json_object *rows = table_json(r, threads, r->top);
  for (size_t i = 0; i < json_object_array_length(rows); i++)
    if (u->sums[i].times)
      json_add(json_object_array_get_idx(rows, i), "unsampled",
               report_unsampled_json(u->sums[i].times));
  return rows;
}

static json_object *make_json(const report_t *r, void *state) {
  cpu_use_t *u = state;
  if (!cpu_use_complete(u, r->cpu_time)) return NULL;
  const table_t threads = threads_of(u);
  json_object *o = json_new_object(), *episodes = json_new_array();
  json_add_count(o, "cpu_ns", u->process_ns);
  json_add(o, "threads", threads_json(r, u, &threads));
  for (size_t i = 0; i < u->episode_count; i++) {
    json_object *episode = json_new_object();
    episode_view_t view = view_of(r, u, &u->episodes[i]);
    table_row_json(r, episode_columns, &u->episodes[i], episode);
    tree_add_json(&view.report, fill_tree, &view, episode);
    json_append(episodes, episode);
  }
  json_add(o, "episodes", episodes);
  return o;
}

static bool add_event(void *state, const record_event_t *e) { return cpu_use_add(state, e); }

/* Samples come with the CPU time of each thread, but the summary shows it only after --cpu. */
static bool has_data(const report_t *r, void *state) {
  if (((const cpu_use_t *)state)->sum_count) return true;
  bool is_sampled = reader_header(r->reader)->mode & RECORD_SAMPLES && !is_summary(r->reader);
  return !r->brief && is_sampled && r->cpu_time && r->cpu_time->count;
}

static void end(void *state) { cpu_use_free(state); }

const report_section_t section_cpu = {.name = "cpu",
                                      .option = "--cpu",
                                      .state_bytes = sizeof(cpu_use_t),
                                      .event = add_event,
                                      .has_data = has_data,
                                      .text = print_text,
                                      .json = make_json,
                                      .end = end};
