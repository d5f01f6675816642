/* SPDX-License-Identifier: MIT
 *
 * The section on stalls: what held up the event loops, for how long, and why.
 */
#include "report/sections/stall_names.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/tree.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 3 };

typedef struct state {
  stalls_t stalls;
  stall_entries_t entries;
  bool finished, made;
} state_t;

static const stalls_t *finished(const report_t *r, state_t *s) {
  if (!s->finished) stalls_finish(&s->stalls, r->reader);
  s->finished = true;
  return &s->stalls;
}

static const stall_entries_t *entries_of(const report_t *r, state_t *s) {
  if (!s->made) s->made = stall_entries_make(&s->entries, r, finished(r, s));
  if (s->made && r->stall_limit_ns && s->entries.max_ns > r->stall_limit_ns) *r->exceeded = true;
  return s->made ? &s->entries : NULL;
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
  if (s->open) return "it had not ended when the recording did";
  switch (s->ending) {
  case STALL_MOVED:
    return "it ended in a loop of its own, which waits inside this turn or elsewhere";
  case STALL_EXITED: return "it ended with its thread";
  case STALL_KILLED: return "it lasted until the process was killed";
  case STALL_EXEC: return "it lasted until the program was replaced";
  default: return NULL;
  }
}

static void print_share(FILE *out, const char *name, uint64_t part, uint64_t all, bool *first) {
  if (!all || part * 50 < all) return;
  fprintf(out, "%s%s %.0f %%", *first ? "" : ", ", name, 100.0 * (double)part / (double)all);
  *first = false;
}

static void print_why(const report_t *r, const named_stall_t *n, FILE *out) {
  const stall_totals_t *t = &n->stall->totals;
  uint64_t all = t->run_ns + t->runq_ns + t->blocked_ns + t->disk_ns + t->fault_ns + t->other_ns;
  bool first = true;
  char text[24];
  fprintf(out, "       why: ");
  print_share(out, "on a CPU", t->run_ns, all, &first);
  print_share(out, "waiting for a CPU", t->runq_ns, all, &first);
  print_share(out, "for a lock", t->lock_ns, all, &first);
  print_share(out, "blocked", t->blocked_ns - t->lock_ns, all, &first);
  print_share(out, "uninterruptible", t->disk_ns, all, &first);
  print_share(out, "reading pages in", t->fault_ns, all, &first);
  print_share(out, "stopped", t->other_ns, all, &first);
  if (t->minor_faults > 1000)
    fprintf(out, "%s%s page faults", first ? "" : ", ", report_count(t->minor_faults, text));
  fputc('\n', out);
  const stall_t *s = n->stall;
  uint64_t excused = s->stopped_ns + s->late_ns + s->runq_ns;
  if (excused > 1000000)
    fprintf(out, "       %s%s more in which it was stopped, got no CPU, or nobody looked%s\n",
            r->dim, length(excused, text), r->plain);
}

static void print_locks(const report_t *r, const stall_t *s, FILE *out) {
  for (size_t i = 0; i < s->lock_count; i++) {
    const stall_lock_t *l = &s->locks[i];
    fprintf(out, "       thread %" PRIu32 " waits for a lock that thread %" PRIu32 " holds%s\n",
            l->waiter, l->owner, l->in_cycle ? ": a deadlock" : "");
    if (l->owner_stack) report_stack_text(r, l->owner_stack, out);
  }
}

static void print_head(const report_t *r, const stall_entry_t *e, FILE *out) {
  const named_stall_t *n = e->worst;
  char total[24], worst[24];
  fprintf(out, "  %4zu ×  %9s  worst %9s  %s%s%s", e->count, length(e->total_ns, total),
          length(n->stall->length_ns, worst), r->bold,
          n->culprit ? n->culprit->function : "[no stack]", r->plain);
  if (n->culprit && *n->culprit->library)
    fprintf(out, "  %s%s%s", r->dim, n->culprit->library, r->plain);
  fprintf(out, "  %s", stall_label_text(n->stall->label));
  if (n->stall->label >= STALL_LOCK && *n->call)
    fprintf(out, ": %s%s%s", n->call, *n->what ? " on " : "", n->what);
  fputc('\n', out);
}

static void print_details(const report_t *r, const stall_entry_t *e, FILE *out) {
  const named_stall_t *n = e->worst;
  const stall_t *s = n->stall;
  if (n->culprit)
    fprintf(out, "       %.0f %% of the worst one's time, in %zu samples%s%s\n", 100 * n->share,
            s->sample_count, n->via ? "; it called " : "", n->via ? n->via->function : "");
  fprintf(out, "       first at %.3f s, last at %.3f s; thread %" PRIu32 "%s%s%s\n",
          at(r, e->first), at(r, e->last), s->tid, *s->thread ? " (" : "", s->thread,
          *s->thread ? ")" : "");
  if (ending_text(s)) fprintf(out, "       %s\n", ending_text(s));
  print_why(r, n, out);
  print_locks(r, s, out);
  if (n->worst) report_stack_text(r, n->worst->stack, out);
}

static tree_t *make_tree(const report_t *r, const stalls_t *stalls) {
  tree_t *tree = tree_new(r);
  bool good = tree != NULL;
  for (size_t i = 0; good && i < stalls->count; i++)
    for (size_t k = 0; good && k < stalls->items[i].sample_count; k++) {
      const stall_sample_t *s = &stalls->items[i].samples[k];
      if (s->stack) good = tree_add(tree, s->stack, (int64_t)(s->weight_ns / 1000000), 1);
    }
  if (good) return tree;
  tree_free(tree);
  return NULL;
}

static void print_watched(const stalls_t *s, FILE *out) {
  uint64_t turns = 0;
  char text[24];
  for (size_t i = 0; i < s->loop_count; i++)
    turns += s->loops[i].iterations;
  if (s->loop_count)
    fprintf(out, "  watched    %s turns of %zu event loop%s\n", report_count(turns, text),
            s->loop_count, s->loop_count == 1 ? "" : "s");
  for (size_t i = 0; i < s->unsampled_count; i++)
    fprintf(out, "  not seen   %s\n", s->unsampled[i]);
  if (s->retracted)
    fprintf(out, "  long waits of a loop at another place than before, left out: %zu\n",
            s->retracted);
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const stall_entries_t *e = entries_of(r, state);
  const stalls_t *s = finished(r, state);
  char total[24];
  if (!e) return SONDE_ENOMEM;
  fprintf(out, "\n%sstalls of event loops%s\n", r->bold, r->plain);
  print_watched(s, out);
  if (!s->count) {
    fprintf(out, "  none\n");
    return 0;
  }
  fprintf(out, "  stalls     %zu, %s in all, in %zu place%s\n\n", s->count,
          length(e->total_ns, total), e->count, e->count == 1 ? "" : "s");
  if (r->tree) {
    tree_t *tree = make_tree(r, s);
    if (tree) tree_text(tree, "where stalled turns were", false, "ms", out);
    tree_free(tree);
    return tree ? 0 : SONDE_ENOMEM;
  }
  size_t top = r->brief ? BRIEF_ROWS : r->top;
  for (size_t i = 0; i < e->count && i < top; i++) {
    print_head(r, &e->items[i], out);
    if (!r->brief) print_details(r, &e->items[i], out);
  }
  if (e->count > top)
    fprintf(out, "  … and %zu more place%s\n", e->count - top, e->count - top == 1 ? "" : "s");
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void add_ns(json_object *o, const char *key, uint64_t ns) {
  json_add_number(o, key, (int64_t)ns);
}

static void add_function(json_object *o, const char *key, const frame_name_t *name) {
  if (!name) return;
  json_object *f = json_object_new_object();
  json_add_text(f, "function", name->function);
  if (*name->library) json_add_text(f, "module", name->library);
  json_object_object_add(o, key, f);
}

static json_object *locks_json(const report_t *r, const stall_t *s) {
  json_object *list = json_object_new_array();
  for (size_t i = 0; i < s->lock_count; i++) {
    const stall_lock_t *l = &s->locks[i];
    json_object *o = json_object_new_object();
    json_add_number(o, "waiter", l->waiter);
    json_add_number(o, "owner", l->owner);
    json_add_address(o, "lock", l->address);
    json_object_object_add(o, "deadlock", json_object_new_boolean(l->in_cycle));
    if (l->owner_stack)
      json_object_object_add(o, "owner_frames", report_frames_json(r, l->owner_stack, NULL));
    json_object_array_add(list, o);
  }
  return list;
}

static json_object *why_json(const stall_t *s) {
  const stall_totals_t *t = &s->totals;
  json_object *o = json_object_new_object();
  add_ns(o, "on_cpu_ns", t->run_ns);
  add_ns(o, "waiting_for_cpu_ns", t->runq_ns);
  add_ns(o, "blocked_ns", t->blocked_ns);
  add_ns(o, "lock_ns", t->lock_ns);
  add_ns(o, "uninterruptible_ns", t->disk_ns);
  add_ns(o, "disk_faults_ns", t->fault_ns);
  json_add_number(o, "minor_faults", (int64_t)t->minor_faults);
  json_add_number(o, "major_faults", (int64_t)t->major_faults);
  return o;
}

static const char *ending_key(const stall_t *s) {
  static const char *const keys[] = {"ended", "ended", "exited", "killed", "exec"};
  return s->open ? "open" : keys[s->ending];
}

static json_object *stall_json(const report_t *r, const named_stall_t *n) {
  const stall_t *s = n->stall;
  json_object *o = json_object_new_object();
  json_add_number(o, "number", (int64_t)s->number);
  json_add_number(o, "tid", s->tid);
  json_add_text(o, "thread", s->thread);
  add_ns(o, "began_ns", reader_ns(r->reader, s->start));
  add_ns(o, "noticed_ns", reader_ns(r->reader, s->detected));
  add_ns(o, "length_ns", s->length_ns);
  add_ns(o, "total_ns", s->total_ns);
  add_ns(o, "stopped_ns", s->stopped_ns);
  add_ns(o, "unwatched_ns", s->late_ns);
  add_ns(o, "starved_ns", s->runq_ns);
  add_ns(o, "threshold_ns", s->threshold_ns);
  json_add_text(o, "ending", ending_key(s));
  json_add_text(o, "cause", stall_label_key(s->label));
  add_function(o, "culprit", n->culprit);
  add_function(o, "via", n->via);
  add_function(o, "late_stack", n->late);
  json_object_object_add(o, "share", json_object_new_double(n->share));
  if (*n->call) json_add_text(o, "call", n->call);
  if (*n->what) json_add_text(o, "what", n->what);
  json_object_object_add(o, "why", why_json(s));
  json_add_number(o, "samples", (int64_t)s->sample_count);
  if (s->lock_count) json_object_object_add(o, "locks", locks_json(r, s));
  if (n->worst) json_object_object_add(o, "frames", report_frames_json(r, n->worst->stack, NULL));
  return o;
}

static json_object *entry_json(const report_t *r, const stall_entry_t *e) {
  char id[24];
  json_object *o = json_object_new_object();
  snprintf(id, sizeof id, "%016" PRIx64, e->id);
  json_add_text(o, "id", id);
  add_function(o, "culprit", e->worst->culprit);
  json_add_text(o, "cause", stall_label_key(e->worst->stall->label));
  json_add_number(o, "count", (int64_t)e->count);
  add_ns(o, "total_ns", e->total_ns);
  add_ns(o, "worst_ns", e->worst->stall->length_ns);
  add_ns(o, "first_ns", reader_ns(r->reader, e->first));
  add_ns(o, "last_ns", reader_ns(r->reader, e->last));
  json_object_object_add(o, "open", json_object_new_boolean(e->open));
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  const stall_entries_t *e = entries_of(r, state);
  const stalls_t *s = finished(r, state);
  if (!e) return NULL;
  json_object *o = json_object_new_object(), *loops = json_object_new_array(),
              *entries = json_object_new_array(), *stalls = json_object_new_array();
  for (size_t i = 0; i < s->loop_count; i++) {
    json_object *loop = json_object_new_object();
    json_add_number(loop, "tid", s->loops[i].tid);
    json_add_number(loop, "turns", (int64_t)s->loops[i].iterations);
    json_object_array_add(loops, loop);
  }
  for (size_t i = 0; i < e->count && i < r->top; i++)
    json_object_array_add(entries, entry_json(r, &e->items[i]));
  for (size_t i = 0; i < s->count; i++)
    json_object_array_add(stalls, stall_json(r, &e->stalls[i]));
  json_object *uncovered = json_object_new_array();
  for (size_t i = 0; i < s->unsampled_count; i++)
    json_object_array_add(uncovered, json_new_text(s->unsampled[i]));
  json_object_object_add(o, "loops", loops);
  json_object_object_add(o, "not_seen", uncovered);
  add_ns(o, "total_ns", e->total_ns);
  add_ns(o, "worst_ns", e->max_ns);
  json_object_object_add(o, "entries", entries);
  json_object_object_add(o, "stalls", stalls);
  tree_t *tree = r->tree ? make_tree(r, s) : NULL;
  if (tree) json_object_object_add(o, "tree", tree_json(tree));
  tree_free(tree);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static bool take_event(void *state, const record_event_t *e) {
  return stalls_add(&((state_t *)state)->stalls, e);
}

static bool holds(const report_t *r, void *state) {
  const stalls_t *s = finished(r, state);
  return s->count || s->loop_count || s->unsampled_count;
}

static void end(void *state) {
  state_t *s = state;
  stall_entries_free(&s->entries);
  stalls_free(&s->stalls);
}

const report_section_t section_stalls = {.name = "stalls",
                                         .option = "--stall",
                                         .mode = RECORD_STALLS,
                                         .state_bytes = sizeof(state_t),
                                         .event = take_event,
                                         .holds = holds,
                                         .text = print_text,
                                         .json = make_json,
                                         .end = end};
