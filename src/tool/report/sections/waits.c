/* SPDX-License-Identifier: MIT
 *
 * Section `waits`: which thread waited how long for which lock, system call or descriptor, and
 * which thread held the lock.
 */
#include "analysis/waits.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/futex_wait.h"
#include "report/json.h"
#include "report/table.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 5 };

typedef struct state {
  waits_t waits;
  bool ranked;
} state_t;

/* NULL: out of memory. */
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

/* NULL: unknown. */
static const char *kind_of_futex(const report_t *r, const wait_sum_t *item) {
  const futex_wait_t *wait =
      item->address && item->stack ? futex_wait_of_stack(r, item->stack) : NULL;
  return wait ? wait->kind : NULL;
}

static void print_wait(const report_t *r, const waits_t *w, const wait_sum_t *item, FILE *out) {
  fprintf(out, "  %9.3f s  thread ", seconds(item->ns));
  print_thread(w, item->tid, out);
  const char *kind = item->is_mutex ? "a lock" : kind_of_futex(r, item);
  fprintf(out, "  %s%s%s", r->bold,
          kind          ? kind
          : *item->call ? item->call
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
  size_t top = report_rows(r, BRIEF_ROWS);
  if (!w->lock_count) return;
  fprintf(out, "\n  locks, by time waited\n");
  for (size_t i = 0; i < w->lock_count && i < top; i++) {
    const wait_lock_t *l = &w->locks[i];
    fprintf(out, "  %9.3f s  0x%" PRIx64 ", %zu waiting thread%s", seconds(l->ns), l->address,
            l->waiters, l->waiters == 1 ? "" : "s");
    if (l->owner) {
      fprintf(out, "; %.0f %% of it held by ",
              100.0 * (double)l->owner_ns / (double)(l->ns ? l->ns : 1));
      print_thread(w, l->owner, out);
    }
    fputc('\n', out);
  }
  if (w->lock_count > top) fprintf(out, "  … and %zu more locks\n", w->lock_count - top);
}

static completeness_t completeness_of(const report_t *r, const waits_t *w) {
  completeness_t c = {0};
  for (size_t i = 0; i < w->count; i++)
    if (w->items[i].stack) report_add_stack(r, &c, w->items[i].stack, w->items[i].ns);
  return c;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const waits_t *w = ranked(state);
  size_t top = report_rows(r, BRIEF_ROWS);
  if (!w) return SONDE_ENOMEM;
  fprintf(out, "\n%swaits%s\n  total      %.2f s blocked, in all threads; %.2f s of it for locks\n",
          r->bold, r->plain, seconds(w->ns), seconds(w->lock_ns));
  const completeness_t complete = completeness_of(r, w);
  report_completeness_text(&complete, "the time with a stack", out);
  fputc('\n', out);
  for (size_t i = 0; i < w->count && i < top; i++)
    print_wait(r, w, &w->items[i], out);
  if (w->count > top) fprintf(out, "  … and %zu more waits\n", w->count - top);
  print_locks(r, w, out);
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static const column_t wait_columns[] = {
    {"time_ns", NULL, UNIT_COUNT, FIELD(wait_sum_t, ns)},
    {"samples", NULL, UNIT_COUNT, FIELD(wait_sum_t, samples)},
    {"syscall", NULL, UNIT_TEXT, FIELD(wait_sum_t, call), .optional = true},
    {"what", NULL, UNIT_TEXT, FIELD(wait_sum_t, what), .optional = true},
    {"stack", NULL, UNIT_STACK, FIELD(wait_sum_t, stack), .optional = true},
    {0}};

static const column_t lock_columns[] = {
    {"lock", NULL, UNIT_ADDRESS, FIELD(wait_lock_t, address)},
    {"time_ns", NULL, UNIT_COUNT, FIELD(wait_lock_t, ns)},
    {"waiters", NULL, UNIT_COUNT, FIELD(wait_lock_t, waiters)},
    {"owners", NULL, UNIT_COUNT, FIELD(wait_lock_t, owners)},
    {"owner_ns", NULL, UNIT_COUNT, FIELD(wait_lock_t, owner_ns), .optional = true},
    {0}};

static void add_thread(json_object *o, const waits_t *w, const char *key, const char *name_key,
                       uint32_t tid) {
  if (!tid) return;
  json_add_count(o, key, tid);
  json_add_text(o, name_key, waits_thread_name(w, tid));
}

static json_object *make_json(const report_t *r, void *state) {
  const waits_t *w = ranked(state);
  if (!w) return NULL;
  json_object *o = json_new_object(), *waits = json_new_array(), *locks = json_new_array();
  json_add_count(o, "time_ns", w->ns);
  json_add_count(o, "lock_ns", w->lock_ns);
  json_add_count(o, "complete_ns", completeness_of(r, w).complete);
  for (size_t i = 0; i < w->count && i < r->top; i++) {
    const wait_sum_t *item = &w->items[i];
    json_object *row = json_new_object();
    add_thread(row, w, "tid", "thread", item->tid);
    if (item->address) json_add_address(row, item->is_mutex ? "lock" : "futex", item->address);
    add_thread(row, w, "owner", "owner_thread", item->owner);
    const char *kind = item->is_mutex ? "a lock" : kind_of_futex(r, item);
    if (kind) json_add_text(row, "for", kind);
    table_row_json(r, wait_columns, item, row);
    json_append(waits, row);
  }
  for (size_t i = 0; i < w->lock_count && i < r->top; i++) {
    json_object *row = json_new_object();
    table_row_json(r, lock_columns, &w->locks[i], row);
    add_thread(row, w, "owner", "owner_thread", w->locks[i].owner);
    json_append(locks, row);
  }
  json_add(o, "waits", waits);
  json_add(o, "locks", locks);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static void *start(const report_t *r) {
  state_t *s = calloc(1, sizeof *s);
  if (s) s->waits.wall.reader = r->reader;
  return s;
}

static bool add_event(void *state, const record_event_t *e) {
  return waits_add(&((state_t *)state)->waits, e);
}

/* The summary shows `wall` instead. */
static bool has_data(const report_t *r, void *state) {
  return !r->brief && ((const state_t *)state)->waits.count;
}

static void end(void *state) {
  waits_free(&((state_t *)state)->waits);
  free(state);
}

const report_section_t section_waits = {.name = "waits",
                                        .option = "--wall",
                                        .start = start,
                                        .event = add_event,
                                        .has_data = has_data,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
