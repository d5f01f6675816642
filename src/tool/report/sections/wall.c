/* SPDX-License-Identifier: MIT
 *
 * The section on wall time: where all threads were, blocked or on a CPU.
 */
#include "analysis/wall.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/tree.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 5 };

typedef struct sums {
  uint64_t seen_ns, run_ns, runq_ns, blocked_ns, samples;
} sums_t;

static sums_t sums_of(const wall_t *w) {
  sums_t s = {0};
  for (size_t i = 0; i < w->thread_count; i++) {
    const wall_thread_t *t = &w->threads[i];
    s.seen_ns += t->seen_ns;
    s.run_ns += t->run_ns;
    s.runq_ns += t->runq_ns;
    s.blocked_ns += t->blocked_ns;
    s.samples += t->samples;
  }
  return s;
}

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static double percent(uint64_t part, uint64_t whole) {
  return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void describe(const wall_place_t *p, char *out, size_t size) {
  if (!p->call)
    snprintf(out, size, "on a CPU");
  else if (!p->stack)
    snprintf(out, size, "blocked, and could not be read");
  else
    snprintf(out, size, "blocked%s%s", *p->call ? " in " : "", p->call);
}

/* ---- text --------------------------------------------------------------------------------- */

static void print_threads(const report_t *r, const wall_t *w, size_t top, FILE *out) {
  fprintf(out, "\n      wall s   on a CPU   waited for one    blocked   thread\n");
  for (size_t i = 0; i < w->thread_count && i < top; i++) {
    const wall_thread_t *t = &w->threads[i];
    fprintf(out, "  %10.2f   %6.1f %%   %12.1f %%   %6.1f %%   %" PRIu32 " %s\n",
            seconds(t->seen_ns), percent(t->run_ns, t->seen_ns), percent(t->runq_ns, t->seen_ns),
            percent(t->blocked_ns, t->seen_ns), t->tid, t->name);
  }
  if (w->thread_count > top)
    fprintf(out, "  %s… and %zu more threads%s\n", r->dim, w->thread_count - top, r->plain);
}

static void print_places(const report_t *r, const wall_t *w, uint64_t whole_ns, FILE *out) {
  size_t top = r->brief ? BRIEF_ROWS : r->top;
  char words[128];
  if (!w->places.count) return;
  fprintf(out, "\n%swhere the threads were, by stack%s\n", r->bold, r->plain);
  for (size_t i = 0; i < w->places.count && i < top; i++) {
    const wall_place_t *p = &w->places.items[i];
    describe(p, words, sizeof words);
    fprintf(out, "  %5.1f %%  %9.3f s  %s", percent(p->ns, whole_ns), seconds(p->ns), words);
    const frame_name_t *owner = r->brief && p->stack ? frame_names_owner(r->names, p->stack) : NULL;
    if (owner) fprintf(out, "  %s", owner->function);
    if (p->stack) fprintf(out, "  %sstack %" PRIu32 "%s", r->dim, p->stack, r->plain);
    fputc('\n', out);
    if (!r->brief && p->stack) report_stack_text(r, p->stack, out);
  }
  if (w->places.count > top) fprintf(out, "  … and %zu more\n", w->places.count - top);
}

static tree_t *make_tree(const report_t *r, const wall_t *w) {
  tree_t *tree = tree_new(r);
  bool good = tree != NULL;
  for (size_t i = 0; good && i < w->places.count; i++) {
    const wall_place_t *p = &w->places.items[i];
    if (p->stack) good = tree_add(tree, p->stack, (int64_t)(p->ns / 1000), (int64_t)p->samples);
  }
  if (good) return tree;
  tree_free(tree);
  return NULL;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  wall_t *w = state;
  char a[24], b[24];
  if (!wall_rank(w)) return SONDE_ENOMEM;
  sums_t s = sums_of(w);
  fprintf(out,
          "\n%sWall time%s\n  in all     %.2f s of %zu thread%s: %.2f s on a CPU, %.2f s waiting "
          "for one, %.2f s blocked\n",
          r->bold, r->plain, seconds(s.seen_ns), w->thread_count, w->thread_count == 1 ? "" : "s",
          seconds(s.run_ns), seconds(s.runq_ns), seconds(s.blocked_ns));
  fprintf(out, "  samples    %s of blocked threads; %s of them (%.2f s) could not be read\n",
          report_count(s.samples, a), report_count(w->unread_samples, b), seconds(w->unread_ns));
  if (r->tree) {
    tree_t *tree = make_tree(r, w);
    if (tree) tree_text(tree, "where the threads were", false, "µs", out);
    tree_free(tree);
    return tree ? 0 : SONDE_ENOMEM;
  }
  print_threads(r, w, r->brief ? BRIEF_ROWS : r->top, out);
  print_places(r, w, s.seen_ns, out);
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *thread_json(const wall_thread_t *t) {
  json_object *o = json_object_new_object();
  json_add_number(o, "tid", t->tid);
  json_add_text(o, "name", t->name);
  json_add_number(o, "seen_ns", (int64_t)t->seen_ns);
  json_add_number(o, "cpu_ns", (int64_t)t->run_ns);
  json_add_number(o, "waited_for_cpu_ns", (int64_t)t->runq_ns);
  json_add_number(o, "blocked_ns", (int64_t)t->blocked_ns);
  json_add_number(o, "looks", (int64_t)t->samples);
  return o;
}

static json_object *place_json(const report_t *r, const wall_place_t *p) {
  json_object *o = json_object_new_object();
  bool complete;
  json_add_text(o, "where", p->call ? "blocked" : "cpu");
  if (p->call && *p->call) json_add_text(o, "syscall", p->call);
  json_add_number(o, "time_ns", (int64_t)p->ns);
  json_add_number(o, "samples", (int64_t)p->samples);
  if (!p->stack) return o;
  json_add_number(o, "stack", p->stack);
  json_object_object_add(o, "frames", report_frames_json(r, p->stack, &complete));
  json_object_object_add(o, "complete", json_object_new_boolean(complete));
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  wall_t *w = state;
  if (!wall_rank(w)) return NULL;
  sums_t s = sums_of(w);
  json_object *o = json_object_new_object(), *threads = json_object_new_array(),
              *places = json_object_new_array();
  json_add_number(o, "seen_ns", (int64_t)s.seen_ns);
  json_add_number(o, "cpu_ns", (int64_t)s.run_ns);
  json_add_number(o, "waited_for_cpu_ns", (int64_t)s.runq_ns);
  json_add_number(o, "blocked_ns", (int64_t)s.blocked_ns);
  json_add_number(o, "looks", (int64_t)s.samples);
  json_add_number(o, "unread_looks", (int64_t)w->unread_samples);
  json_add_number(o, "unread_ns", (int64_t)w->unread_ns);
  for (size_t i = 0; i < w->thread_count && i < r->top; i++)
    json_object_array_add(threads, thread_json(&w->threads[i]));
  for (size_t i = 0; i < w->places.count && i < r->top; i++)
    json_object_array_add(places, place_json(r, &w->places.items[i]));
  json_object_object_add(o, "threads", threads);
  tree_t *tree = r->tree ? make_tree(r, w) : NULL;
  if (tree) json_object_object_add(o, "tree", tree_json(tree));
  tree_free(tree);
  json_object_object_add(o, "stacks", places);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static void *start(const report_t *r) {
  wall_t *w = calloc(1, sizeof *w);
  if (w) w->reader = r->reader;
  return w;
}

static bool take_event(void *state, const record_event_t *e) { return wall_add(state, e); }

static bool holds(const report_t *r, void *state) {
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
                                       .event = take_event,
                                       .holds = holds,
                                       .text = print_text,
                                       .json = make_json,
                                       .end = end};
