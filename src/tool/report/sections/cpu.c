/* SPDX-License-Identifier: MIT
 *
 * The section on CPU use: who used it, who waited for it, and where it went while somebody used it
 * for too long.
 */
#include "analysis/cpu.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/tree.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 3 };

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static double of_a_cpu(uint64_t cpu_ns, uint64_t time_ns) {
  return time_ns ? 100.0 * (double)cpu_ns / (double)time_ns : 0;
}

static double a_second(uint64_t count, uint64_t time_ns) {
  return time_ns ? (double)count * 1e9 / (double)time_ns : 0;
}

static int by_run(const void *left, const void *right) {
  const cpu_sum_t *a = left, *b = right;
  if (a->run_ns != b->run_ns) return a->run_ns > b->run_ns ? -1 : 1;
  return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static void rank(cpu_use_t *u) {
  if (u->sum_count) qsort(u->sums, u->sum_count, sizeof *u->sums, by_run);
}

/* R as trees of this section are shown: from the top, where nothing else was asked for. */
static report_t with_tree(const report_t *r) {
  report_t view = *r;
  if (view.tree == TREE_NONE) view.tree = TREE_TOP_DOWN;
  return view;
}

static tree_t *tree_of(const report_t *r, const cpu_use_t *u, const cpu_use_episode_t *burst) {
  tree_t *tree = tree_new(r);
  bool good = tree != NULL;
  for (size_t i = 0; good && i < u->tick_count; i++) {
    int64_t ticks = (int64_t)u->ticks[i].ticks;
    if (cpu_tick_in(r->reader, &u->ticks[i], burst))
      good = tree_add(tree, u->ticks[i].stack, ticks, ticks);
  }
  if (good) return tree;
  tree_free(tree);
  return NULL;
}

static int print_burst(const report_t *r, const cpu_use_t *u, const cpu_use_episode_t *b,
                       FILE *out) {
  double to = seconds(reader_ns(r->reader, b->to)), time = seconds(b->time_ns);
  fprintf(out, "\n  %s", r->bold);
  if (b->tid)
    fprintf(out, "thread %" PRIu32 " (%s)", b->tid, b->name);
  else
    fprintf(out, "all threads together");
  fprintf(out, "%s: %.0f %% of a CPU for %.1f s, from %.1f to %.1f s\n", r->plain,
          of_a_cpu(b->cpu_ns, b->time_ns), time, to - time, to);
  if (r->brief || (!b->tid && u->sum_count == 1)) return 0;
  report_t view = with_tree(r);
  tree_t *tree = tree_of(&view, u, b);
  if (tree) tree_text(tree, "where it went", false, "samples", out);
  tree_free(tree);
  return tree ? 0 : SONDE_ENOMEM;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  cpu_use_t *u = state;
  size_t top = r->brief ? BRIEF_ROWS : r->top;
  int status = 0;
  rank(u);
  fprintf(out, "\n%sCPU use%s\n  program    %.2f s of CPU time\n", r->bold, r->plain,
          seconds(u->process_ns));
  fprintf(out, "\n     CPU s    of a CPU   waited for one   wake-ups a second   thread\n");
  for (size_t i = 0; i < u->sum_count && i < top; i++) {
    const cpu_sum_t *s = &u->sums[i];
    fprintf(out, "  %8.2f   %6.1f %%   %12.2f s   %17.1f   %" PRIu32 " %s\n", seconds(s->run_ns),
            of_a_cpu(s->run_ns, s->seen_ns), seconds(s->runq_ns), a_second(s->wakeups, s->seen_ns),
            s->tid, s->name);
  }
  if (u->sum_count > top) fprintf(out, "  … and %zu more threads\n", u->sum_count - top);
  for (size_t i = 0; i < u->episode_count && i < top && status == 0; i++)
    status = print_burst(r, u, &u->episodes[i], out);
  return status;
}

static json_object *sum_json(const cpu_sum_t *s) {
  json_object *o = json_object_new_object();
  json_add_number(o, "tid", s->tid);
  json_add_text(o, "name", s->name);
  json_add_number(o, "cpu_ns", (int64_t)s->run_ns);
  json_add_number(o, "waited_for_cpu_ns", (int64_t)s->runq_ns);
  json_add_number(o, "wakeups", (int64_t)s->wakeups);
  json_add_number(o, "seen_ns", (int64_t)s->seen_ns);
  return o;
}

static json_object *burst_json(const report_t *r, const cpu_use_t *u, const cpu_use_episode_t *b) {
  json_object *o = json_object_new_object();
  if (b->tid) {
    json_add_number(o, "tid", b->tid);
    json_add_text(o, "name", b->name);
  }
  json_add_number(o, "to_ns", (int64_t)reader_ns(r->reader, b->to));
  json_add_number(o, "time_ns", (int64_t)b->time_ns);
  json_add_number(o, "cpu_ns", (int64_t)b->cpu_ns);
  report_t view = with_tree(r);
  tree_t *tree = tree_of(&view, u, b);
  if (tree) json_object_object_add(o, "tree", tree_json(tree));
  tree_free(tree);
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  cpu_use_t *u = state;
  json_object *o = json_object_new_object(), *threads = json_object_new_array(),
              *episodes = json_object_new_array();
  rank(u);
  json_add_number(o, "cpu_ns", (int64_t)u->process_ns);
  for (size_t i = 0; i < u->sum_count && i < r->top; i++)
    json_object_array_add(threads, sum_json(&u->sums[i]));
  for (size_t i = 0; i < u->episode_count; i++)
    json_object_array_add(episodes, burst_json(r, u, &u->episodes[i]));
  json_object_object_add(o, "threads", threads);
  json_object_object_add(o, "episodes", episodes);
  return o;
}

static bool take_event(void *state, const record_event_t *e) { return cpu_use_add(state, e); }

static bool holds(const report_t *r, void *state) {
  (void)r;
  return ((const cpu_use_t *)state)->sum_count != 0;
}

static void end(void *state) { cpu_use_free(state); }

const report_section_t section_cpu = {.name = "cpu",
                                      .option = "--cpu",
                                      .state_bytes = sizeof(cpu_use_t),
                                      .event = take_event,
                                      .holds = holds,
                                      .text = print_text,
                                      .json = make_json,
                                      .end = end};
