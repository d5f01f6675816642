/* SPDX-License-Identifier: MIT
 *
 * Section `stalls`: what stalled the event loops, for how long and why.
 */
#include "base/wrap.h"
#include "report/sections/stall_groups.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/sections/analyses.h"
#include "report/table.h"
#include "report/tree.h"
#include "sonde/status.h"
#include "symbol/short_name.h"

enum { BRIEF_ROWS = 3 };

typedef struct state {
  stalls_t stalls;
  stall_groups_t groups;
  bool finished, grouped;
} state_t;

static const stalls_t *finished(const report_t *r, state_t *s) {
  if (!s->finished) stalls_finish(&s->stalls, r->reader);
  s->finished = true;
  return &s->stalls;
}

static const stall_groups_t *groups_of(const report_t *r, state_t *s) {
  if (!s->grouped) s->grouped = stall_groups_make(&s->groups, r, finished(r, s));
  if (s->grouped && r->stall_limit_ns && s->groups.max_ns > r->stall_limit_ns)
    *r->exceeded_ns = s->groups.max_ns;
  return s->grouped ? &s->groups : NULL;
}

const stall_groups_t *section_stall_groups(const report_t *r, void *state) {
  return groups_of(r, state);
}

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

static double at(const report_t *r, uint64_t ticks) { return seconds(reader_ns(r->reader, ticks)); }

/* "712 ms" or "12.3 s" */
static const char *length(uint64_t ns, char out[24]) {
  if (ns < 10000000000u)
    snprintf(out, 24, "%.0f ms", (double)ns / 1e6);
  else
    snprintf(out, 24, "%.1f s", seconds(ns));
  return out;
}

/* ---- text --------------------------------------------------------------------------------- */

static const char *ending_text(const stall_t *s) {
  if (s->open) return "not ended when the recording ended";
  switch (s->ending) {
  case STALL_MOVED: return "ended in an inner loop, which waits inside this iteration or elsewhere";
  case STALL_EXITED: return "ended with its thread";
  case STALL_KILLED: return "ended when the process was killed";
  case STALL_EXEC: return "ended at exec";
  default: return NULL;
  }
}

static void print_share(FILE *out, const char *name, uint64_t part, uint64_t all, bool *first) {
  if (!all || part * 50 < all) return;
  fprintf(out, "%s%s %.0f %%", *first ? "" : ", ", name, 100.0 * (double)part / (double)all);
  *first = false;
}

static void print_why(const report_t *r, const attributed_stall_t *n, FILE *out) {
  const stall_totals_t *t = &n->stall->totals;
  uint64_t all = t->run_ns + t->runq_ns + t->blocked_ns + t->disk_ns + t->fault_ns + t->other_ns;
  bool first = true;
  char text[24];
  fprintf(out, "       why: ");
  print_share(out, "on a CPU", t->run_ns, all, &first);
  print_share(out, "waiting for a CPU", t->runq_ns, all, &first);
  print_share(out, "waiting for a lock", t->lock_ns, all, &first);
  print_share(out, "blocked", t->blocked_ns - t->lock_ns, all, &first);
  print_share(out, "uninterruptible", t->disk_ns, all, &first);
  print_share(out, "reading pages from disk", t->fault_ns, all, &first);
  print_share(out, "stopped", t->other_ns, all, &first);
  if (t->minor_faults > 1000)
    fprintf(out, "%s%s page faults", first ? "" : ", ", report_count(t->minor_faults, text));
  fputc('\n', out);
  const stall_t *s = n->stall;
  uint64_t excluded = s->stopped_ns + s->late_ns + s->runq_ns;
  if (excluded > 1000000)
    fprintf(out, "       %snot counted: %s stopped, waiting for a CPU, or not monitored%s\n",
            r->dim, length(excluded, text), r->plain);
}

static void print_locks(const report_t *r, const stall_t *s, FILE *out) {
  for (size_t i = 0; i < s->lock_count; i++) {
    const stall_lock_t *l = &s->locks[i];
    fprintf(out, "       thread %" PRIu32 " waits for a lock that thread %" PRIu32 " holds%s\n",
            l->waiter, l->owner, l->in_cycle ? ": a deadlock" : "");
    if (!l->owner_stack) continue;
    fprintf(out, "       the stack of thread %" PRIu32 ":\n", l->owner);
    report_stack_text(r, l->owner_stack, out);
  }
}

static void print_head(const report_t *r, const stall_group_t *e, FILE *out) {
  const attributed_stall_t *n = e->worst;
  char total[24], worst[24];
  fprintf(out, "  %4zu ×  %9s  worst %9s  %s%s%s", e->count, length(e->total_ns, total),
          length(n->stall->length_ns, worst), r->bold, n->hot ? n->hot->function : "[no stack]",
          r->plain);
  if (n->hot && *n->hot->library)
    fprintf(out, "  %s%s%s", r->dim, plain_text(n->hot->library), r->plain);
  fprintf(out, "  %s", stall_label_text(n->stall->label));
  if (n->stall->label >= STALL_LOCK && *n->call)
    fprintf(out, ": %s%s%s", n->call, *n->what ? " on " : "", n->what);
  fputc('\n', out);
}

static void print_details(const report_t *r, const stall_group_t *e, FILE *out) {
  const attributed_stall_t *n = e->worst;
  const stall_t *s = n->stall;
  if (n->hot)
    fprintf(out, "       %.0f %% of the worst stall's time, in %zu samples%s%s\n", 100 * n->share,
            s->sample_count, n->callee ? "; in its callee " : "",
            n->callee ? n->callee->function : "");
  fprintf(out, "       first at %.3f s, last at %.3f s; thread %" PRIu32 "%s%s%s\n",
          at(r, e->first), at(r, e->last), s->tid, *s->thread ? " (" : "", s->thread,
          *s->thread ? ")" : "");
  if (ending_text(s)) fprintf(out, "       %s\n", ending_text(s));
  print_why(r, n, out);
  print_locks(r, s, out);
  if (!n->worst) return;
  fprintf(out, "       the stack of the stalled thread %" PRIu32 ":\n", s->tid);
  report_stack_text(r, n->worst->stack, out);
}

static bool fill_tree(tree_t *tree, const void *context) {
  const stalls_t *stalls = context;
  bool good = true;
  for (size_t i = 0; good && i < stalls->count; i++)
    for (size_t k = 0; good && k < stalls->items[i].sample_count; k++) {
      const stall_sample_t *s = &stalls->items[i].samples[k];
      if (s->stack) good = tree_add(tree, s->stack, (int64_t)(s->weight_ns / 1000000), 1);
    }
  return good;
}

static completeness_t completeness_of(const report_t *r, const stalls_t *s) {
  completeness_t c = {0};
  for (size_t i = 0; i < s->count; i++)
    for (size_t k = 0; k < s->items[i].sample_count; k++)
      if (s->items[i].samples[k].stack) report_add_stack(r, &c, s->items[i].samples[k].stack, 1);
  return c;
}

static void print_monitored(const report_t *r, const stalls_t *s, FILE *out) {
  uint64_t iterations = 0;
  char text[24];
  for (size_t i = 0; i < s->loop_count; i++)
    iterations += s->loops[i].iterations;
  if (s->loop_count)
    fprintf(out, "  monitored  %s iterations of %zu event loop%s\n", report_count(iterations, text),
            s->loop_count, s->loop_count == 1 ? "" : "s");
  for (size_t i = 0; i < s->unsampled_count; i++) {
    fputs("  unsampled  ", out);
    wrap_print(out, s->unsampled[i], (wrap_t){13, 13, r->columns, WRAP_ALL_LINES});
  }
  if (s->retracted)
    fprintf(out, "  excluded   %zu long waits of a loop at another wait site\n", s->retracted);
  if (s->joining)
    fprintf(out, "  excluded   %zu wait%s for other threads to end, after the loop's end\n",
            s->joining, s->joining == 1 ? "" : "s");
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const stall_groups_t *e = groups_of(r, state);
  const stalls_t *s = finished(r, state);
  char total[24];
  if (!e) return SONDE_ENOMEM;
  fprintf(out, "\n%sstalls of event loops%s\n", r->bold, r->plain);
  print_monitored(r, s, out);
  if (!s->count) {
    fprintf(out, "  none\n");
    return 0;
  }
  fprintf(out, "  stalls     %zu, %s in total, in %zu place%s\n", s->count,
          length(e->total_ns, total), e->count, e->count == 1 ? "" : "s");
  const completeness_t complete = completeness_of(r, s);
  report_completeness_text(r, &complete, "samples", out);
  fputc('\n', out);
  if (r->tree) return tree_print(r, fill_tree, s, "stalled iterations", "ms", out);
  size_t top = report_rows(r, BRIEF_ROWS);
  for (size_t i = 0; i < e->count && i < top; i++) {
    print_head(r, &e->items[i], out);
    if (!r->brief) print_details(r, &e->items[i], out);
  }
  if (e->count > top) report_more(r, e->count - top, "places", out);
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static const column_t loop_columns[] = {
    {"tid", NULL, UNIT_COUNT, FIELD(stall_loop_t, tid)},
    {"iterations", NULL, UNIT_COUNT, FIELD(stall_loop_t, iterations)},
    {0}};

static const column_t lock_columns[] = {
    {"waiter", NULL, UNIT_COUNT, FIELD(stall_lock_t, waiter)},
    {"owner", NULL, UNIT_COUNT, FIELD(stall_lock_t, owner)},
    {"lock", NULL, UNIT_ADDRESS, FIELD(stall_lock_t, address)},
    {"deadlock", NULL, UNIT_FLAG, FIELD(stall_lock_t, in_cycle)},
    {0}};

static const column_t why_columns[] = {
    {"on_cpu_ns", NULL, UNIT_COUNT, FIELD(stall_totals_t, run_ns)},
    {"waiting_for_cpu_ns", NULL, UNIT_COUNT, FIELD(stall_totals_t, runq_ns)},
    {"blocked_ns", NULL, UNIT_COUNT, FIELD(stall_totals_t, blocked_ns)},
    {"lock_ns", NULL, UNIT_COUNT, FIELD(stall_totals_t, lock_ns)},
    {"uninterruptible_ns", NULL, UNIT_COUNT, FIELD(stall_totals_t, disk_ns)},
    {"disk_faults_ns", NULL, UNIT_COUNT, FIELD(stall_totals_t, fault_ns)},
    {"minor_faults", NULL, UNIT_COUNT, FIELD(stall_totals_t, minor_faults)},
    {"major_faults", NULL, UNIT_COUNT, FIELD(stall_totals_t, major_faults)},
    {0}};

static const column_t stall_columns[] = {
    {"number", NULL, UNIT_COUNT, FIELD(stall_t, number)},
    {"tid", NULL, UNIT_COUNT, FIELD(stall_t, tid)},
    {"thread", NULL, UNIT_TEXT, FIELD(stall_t, thread)},
    {"began_ns", NULL, UNIT_TICKS, FIELD(stall_t, start)},
    {"noticed_ns", NULL, UNIT_TICKS, FIELD(stall_t, detected)},
    {"length_ns", NULL, UNIT_COUNT, FIELD(stall_t, length_ns)},
    {"total_ns", NULL, UNIT_COUNT, FIELD(stall_t, total_ns)},
    {"stopped_ns", NULL, UNIT_COUNT, FIELD(stall_t, stopped_ns)},
    {"unmonitored_ns", NULL, UNIT_COUNT, FIELD(stall_t, late_ns)},
    {"waiting_for_cpu_ns", NULL, UNIT_COUNT, FIELD(stall_t, runq_ns)},
    {"threshold_ns", NULL, UNIT_COUNT, FIELD(stall_t, threshold_ns)},
    {"samples", NULL, UNIT_COUNT, FIELD(stall_t, sample_count)},
    {0}};

static const column_t group_columns[] = {
    {"count", NULL, UNIT_COUNT, FIELD(stall_group_t, count)},
    {"total_ns", NULL, UNIT_COUNT, FIELD(stall_group_t, total_ns)},
    {"first_ns", NULL, UNIT_TICKS, FIELD(stall_group_t, first)},
    {"last_ns", NULL, UNIT_TICKS, FIELD(stall_group_t, last)},
    {"open", NULL, UNIT_FLAG, FIELD(stall_group_t, open)},
    {0}};

static void add_function(json_object *o, const char *key, const frame_name_t *name) {
  if (!name) return;
  json_object *f = json_new_object();
  json_add_text(f, "function", name->function);
  if (*name->library) json_add_text(f, "module", name->library);
  json_add(o, key, f);
}

static json_object *locks_json(const report_t *r, const stall_t *s) {
  json_object *list = json_new_array();
  for (size_t i = 0; i < s->lock_count; i++) {
    const stall_lock_t *l = &s->locks[i];
    json_object *o = json_new_object();
    table_row_json(r, lock_columns, l, o);
    if (l->owner_stack) json_add(o, "owner_frames", report_frames_json(r, l->owner_stack, NULL));
    json_append(list, o);
  }
  return list;
}

static const char *ending_key(const stall_t *s) {
  static const char *const keys[] = {"ended", "ended", "exited", "killed", "exec"};
  return s->open ? "open" : keys[s->ending];
}

static json_object *stall_json(const report_t *r, const attributed_stall_t *n) {
  const stall_t *s = n->stall;
  json_object *o = json_new_object(), *why = json_new_object();
  table_row_json(r, stall_columns, s, o);
  json_add_text(o, "ending", ending_key(s));
  json_add_text(o, "cause", stall_label_key(s->label));
  add_function(o, "hot_path", n->hot);
  add_function(o, "callee", n->callee);
  add_function(o, "at_threshold", n->at_threshold);
  json_add(o, "share", json_object_new_double(n->share));
  if (*n->call) json_add_text(o, "call", n->call);
  if (*n->what) json_add_text(o, "what", n->what);
  table_row_json(r, why_columns, &s->totals, why);
  json_add(o, "why", why);
  if (s->lock_count) json_add(o, "locks", locks_json(r, s));
  if (n->worst) json_add(o, "frames", report_frames_json(r, n->worst->stack, NULL));
  return o;
}

static json_object *group_json(const report_t *r, const stall_group_t *g) {
  char id[24];
  json_object *o = json_new_object();
  snprintf(id, sizeof id, "%016" PRIx64, g->id);
  json_add_text(o, "id", id);
  add_function(o, "hot_path", g->worst->hot);
  json_add_text(o, "cause", stall_label_key(g->worst->stall->label));
  json_add_count(o, "worst_ns", g->worst->stall->length_ns);
  table_row_json(r, group_columns, g, o);
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  const stall_groups_t *e = groups_of(r, state);
  const stalls_t *s = finished(r, state);
  if (!e) return NULL;
  const table_t loops = {TABLE(loop_columns, s->loops, s->loop_count)};
  json_object *o = json_new_object(), *groups = json_new_array(), *stalls = json_new_array(),
              *unsampled = json_new_array();
  for (size_t i = 0; i < e->count && i < r->top; i++)
    json_append(groups, group_json(r, &e->items[i]));
  for (size_t i = 0; i < s->count; i++)
    json_append(stalls, stall_json(r, &e->stalls[i]));
  for (size_t i = 0; i < s->unsampled_count; i++)
    json_append(unsampled, json_new_text(s->unsampled[i]));
  json_add(o, "loops", table_json(r, &loops, SIZE_MAX));
  json_add(o, "unsampled", unsampled);
  json_add_count(o, "total_ns", e->total_ns);
  json_add_count(o, "worst_ns", e->max_ns);
  const completeness_t complete = completeness_of(r, s);
  json_add_count(o, "samples", complete.all);
  json_add_count(o, "complete", complete.complete);
  json_add(o, "entries", groups);
  json_add(o, "stalls", stalls);
  if (r->tree) tree_add_json(r, fill_tree, s, o);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static bool add_event(void *state, const record_event_t *e) {
  return stalls_add(&((state_t *)state)->stalls, e);
}

static bool has_data(const report_t *r, void *state) {
  const stalls_t *s = finished(r, state);
  return s->count || s->loop_count || s->unsampled_count;
}

static void end(void *state) {
  state_t *s = state;
  stall_groups_free(&s->groups);
  stalls_free(&s->stalls);
}

const report_section_t section_stalls = {.name = "stalls",
                                         .option = "--stall",
                                         .mode = RECORD_STALLS,
                                         .state_bytes = sizeof(state_t),
                                         .event = add_event,
                                         .has_data = has_data,
                                         .text = print_text,
                                         .json = make_json,
                                         .end = end};
