/* SPDX-License-Identifier: MIT
 *
 * The section on waits: who waited how long, for which lock, call or descriptor, and on whom.
 */
#include "analysis/waits.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 5 };

typedef struct state {
  waits_t waits;
  bool ranked;
} state_t;

/* NULL without memory. */
static const waits_t *ranked(state_t *s) {
  if (!s->ranked) s->ranked = waits_rank(&s->waits);
  return s->ranked ? &s->waits : NULL;
}

static double seconds(uint64_t ns) { return (double)ns / 1e9; }

/* ---- text --------------------------------------------------------------------------------- */

static void print_thread(const waits_t *w, uint32_t tid, FILE *out) {
  const char *name = waits_thread_name(w, tid);
  fprintf(out, "%" PRIu32 "%s%s%s", tid, *name ? " (" : "", name, *name ? ")" : "");
}

static void print_wait(const report_t *r, const waits_t *w, const wait_sum_t *item, FILE *out) {
  fprintf(out, "  %9.3f s  thread ", seconds(item->ns));
  print_thread(w, item->tid, out);
  fprintf(out, "  %s%s%s", r->bold,
          item->is_mutex ? "a lock"
          : *item->call  ? item->call
                         : "in no system call",
          r->plain);
  if (item->address) fprintf(out, " 0x%" PRIx64, item->address);
  if (*item->what) fprintf(out, " on %s", item->what);
  if (item->owner) {
    fprintf(out, ", held by ");
    print_thread(w, item->owner, out);
  }
  fputc('\n', out);
  if (!r->brief && item->stack) report_stack_text(r, item->stack, out);
}

static void print_locks(const report_t *r, const waits_t *w, FILE *out) {
  size_t top = r->brief ? BRIEF_ROWS : r->top;
  if (!w->lock_count) return;
  fprintf(out, "\n  locks, by how long was waited for them\n");
  for (size_t i = 0; i < w->lock_count && i < top; i++) {
    const wait_lock_t *l = &w->locks[i];
    fprintf(out, "  %9.3f s  0x%" PRIx64 ", by %zu thread%s", seconds(l->ns), l->address,
            l->waiters, l->waiters == 1 ? "" : "s");
    if (l->owner) {
      fprintf(out, "; %.0f %% of it while it was held by ",
              100.0 * (double)l->owner_ns / (double)(l->ns ? l->ns : 1));
      print_thread(w, l->owner, out);
    }
    fputc('\n', out);
  }
  if (w->lock_count > top) fprintf(out, "  … and %zu more locks\n", w->lock_count - top);
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const waits_t *w = ranked(state);
  size_t top = r->brief ? BRIEF_ROWS : r->top;
  if (!w) return SONDE_ENOMEM;
  fprintf(out, "\n%swaits%s\n  in all     %.2f s, %.2f s of them for locks\n\n", r->bold, r->plain,
          seconds(w->ns), seconds(w->lock_ns));
  for (size_t i = 0; i < w->count && i < top; i++)
    print_wait(r, w, &w->items[i], out);
  if (w->count > top) fprintf(out, "  … and %zu more waits\n", w->count - top);
  print_locks(r, w, out);
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void add_thread(json_object *o, const waits_t *w, const char *key, const char *name_key,
                       uint32_t tid) {
  if (!tid) return;
  json_add_number(o, key, tid);
  json_add_text(o, name_key, waits_thread_name(w, tid));
}

static json_object *wait_json(const report_t *r, const waits_t *w, const wait_sum_t *item) {
  json_object *o = json_object_new_object();
  add_thread(o, w, "tid", "thread", item->tid);
  json_add_number(o, "time_ns", (int64_t)item->ns);
  json_add_number(o, "samples", (int64_t)item->samples);
  if (*item->call) json_add_text(o, "syscall", item->call);
  if (*item->what) json_add_text(o, "what", item->what);
  if (item->address) json_add_address(o, item->is_mutex ? "lock" : "futex", item->address);
  add_thread(o, w, "owner", "owner_thread", item->owner);
  if (item->stack) json_object_object_add(o, "frames", report_frames_json(r, item->stack, NULL));
  return o;
}

static json_object *lock_json(const waits_t *w, const wait_lock_t *l) {
  json_object *o = json_object_new_object();
  json_add_address(o, "lock", l->address);
  json_add_number(o, "time_ns", (int64_t)l->ns);
  json_add_number(o, "waiters", (int64_t)l->waiters);
  json_add_number(o, "owners", (int64_t)l->owners);
  add_thread(o, w, "owner", "owner_thread", l->owner);
  if (l->owner) json_add_number(o, "owner_ns", (int64_t)l->owner_ns);
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  const waits_t *w = ranked(state);
  if (!w) return NULL;
  json_object *o = json_object_new_object(), *waits = json_object_new_array(),
              *locks = json_object_new_array();
  json_add_number(o, "time_ns", (int64_t)w->ns);
  json_add_number(o, "lock_ns", (int64_t)w->lock_ns);
  for (size_t i = 0; i < w->count && i < r->top; i++)
    json_object_array_add(waits, wait_json(r, w, &w->items[i]));
  for (size_t i = 0; i < w->lock_count && i < r->top; i++)
    json_object_array_add(locks, lock_json(w, &w->locks[i]));
  json_object_object_add(o, "waits", waits);
  json_object_object_add(o, "locks", locks);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static void *start(const report_t *r) {
  state_t *s = calloc(1, sizeof *s);
  if (s) s->waits.wall.reader = r->reader;
  return s;
}

static bool take_event(void *state, const record_event_t *e) {
  return waits_add(&((state_t *)state)->waits, e);
}

/* In the summary, `wall` tells of it. */
static bool holds(const report_t *r, void *state) {
  return !r->brief && ((const state_t *)state)->waits.count;
}

static void end(void *state) {
  waits_free(&((state_t *)state)->waits);
  free(state);
}

const report_section_t section_waits = {.name = "waits",
                                        .option = "--wall",
                                        .start = start,
                                        .event = take_event,
                                        .holds = holds,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
