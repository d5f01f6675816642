/* SPDX-License-Identifier: MIT
 *
 * Section `waits`: which thread waited how long for which lock, system call or descriptor, and
 * which thread held the lock.
 */
#include "analysis/waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "report/futex_wait.h"
#include "report/json.h"
#include "report/table.h"
#include "sonde/status.h"
#include "symbol/short_name.h"

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
  const char *name = plain_text(waits_thread_name(w, tid));
  fprintf(out, "%" PRIu32 "%s%s%s", tid, *name ? " (" : "", name, *name ? ")" : "");
}

/* NULL: unknown. */
static const char *kind_of_futex(const report_t *r, const wait_sum_t *item) {
  const futex_wait_t *wait =
      item->address && item->stack ? futex_wait_of_stack(r, item->stack) : NULL;
  return wait ? wait->kind : NULL;
}

/* Waits of several threads at one stack for one target. */
typedef struct wait_group {
  const wait_sum_t *first;
  uint64_t ns;
  uint64_t address; /* 0: the threads wait for different ones */
  uint32_t owner;   /* 0: unknown, or different threads */
  size_t threads;
  uint32_t last_tid; /* waits are added by thread */
} wait_group_t;

typedef struct groups {
  wait_group_t *items;
  size_t count, capacity;
  hash_index_t index;
} groups_t;

static uint64_t hash_of_wait(const wait_sum_t *w) {
  return hash_pair(hash_text(hash_text(HASH_START, w->call), w->what),
                   hash_pair(w->stack, w->is_mutex ? w->address : 0));
}

static uint64_t hash_of_group(const void *groups, size_t i) {
  return hash_of_wait(((const groups_t *)groups)->items[i].first);
}

/* Waits without a stack stay apart: they may be at different places. */
static bool belongs(const wait_sum_t *a, const wait_sum_t *b) {
  return a->stack && a->stack == b->stack && a->is_mutex == b->is_mutex &&
         (!a->is_mutex || a->address == b->address) && !strcmp(a->call, b->call) &&
         !strcmp(a->what, b->what);
}

static bool add_to_group(groups_t *g, const wait_sum_t *item) {
  uint32_t *slot;
  if (!hash_reserve(&g->index, g->count, hash_of_group, g)) return false;
  HASH_FIND(&g->index, hash_of_wait(item), slot) {
    wait_group_t *group = &g->items[*slot - 1];
    if (!belongs(group->first, item)) continue;
    group->ns += item->ns;
    group->threads += item->tid != group->last_tid;
    group->last_tid = item->tid;
    if (group->address != item->address) group->address = 0;
    if (group->owner != item->owner) group->owner = 0;
    return true;
  }
  if (!ARRAY_GROW(g->items, g->count, g->capacity)) return false;
  g->items[g->count++] = (wait_group_t){item, item->ns, item->address, item->owner, 1, item->tid};
  *slot = (uint32_t)g->count;
  return true;
}

static int by_thread(const void *left, const void *right) {
  const wait_sum_t *a = *(const wait_sum_t *const *)left, *b = *(const wait_sum_t *const *)right;
  if (a->tid != b->tid) return a->tid < b->tid ? -1 : 1;
  return (a > b) - (a < b);
}

static bool make_groups(const waits_t *w, groups_t *g) {
  const wait_sum_t **order = calloc(w->count + 1, sizeof *order);
  bool good = order != NULL;
  for (size_t i = 0; good && i < w->count; i++)
    order[i] = &w->items[i];
  if (good && w->count) qsort(order, w->count, sizeof *order, by_thread);
  for (size_t i = 0; good && i < w->count; i++)
    good = add_to_group(g, order[i]);
  free(order);
  return good;
}

static int by_time(const void *left, const void *right) {
  const wait_group_t *a = left, *b = right;
  if (a->ns != b->ns) return a->ns > b->ns ? -1 : 1;
  return (a->first > b->first) - (a->first < b->first);
}

/* A row as text shows it; `texts` owns what the others point to. */
typedef struct wait_row {
  uint64_t ns;
  const char *thread, *what, *owner;
  uint32_t stack;
  char *texts;
} wait_row_t;

static const column_t group_columns[] = {{NULL, "time", UNIT_SECONDS, FIELD(wait_row_t, ns)},
                                         {NULL, "thread", UNIT_TEXT, FIELD(wait_row_t, thread)},
                                         {NULL, "held by", UNIT_TEXT, FIELD(wait_row_t, owner)},
                                         {NULL, "waits for", UNIT_TEXT, FIELD(wait_row_t, what)},
                                         {NULL, NULL, UNIT_FRAMES, FIELD(wait_row_t, stack)},
                                         {0}};

/* "a lock (queue)", "usleep", "read on /dev/tty". */
static void print_what(const report_t *r, const wait_group_t *g, FILE *out) {
  const wait_sum_t *item = g->first;
  const char *kind = item->is_mutex ? "a lock" : kind_of_futex(r, item);
  char name[REPORT_NAME_MAX];
  if (item->is_mutex && *item->what) {
    fprintf(out, "the %s", item->what);
    return;
  }
  if (!kind) kind = *item->call ? wait_called(r, item->stack, item->call) : "no system call";
  fputs(kind, out);
  if (g->address && frame_names_variable(r->names, g->address, name, sizeof name))
    fprintf(out, " (%s)", name);
  else if (g->address && item->is_mutex) /* of the other objects the stack tells enough */
    fprintf(out, " (0x%" PRIx64 ")", g->address);
  if (*item->what) fprintf(out, " on %s", item->what);
}

/* False: out of memory. */
static bool make_row(const report_t *r, const waits_t *w, const wait_group_t *g, wait_row_t *row) {
  size_t size, what, owner;
  FILE *out = open_memstream(&row->texts, &size);
  if (!out) return false;
  if (g->threads > 1)
    fprintf(out, "%zu threads", g->threads);
  else
    print_thread(w, g->first->tid, out);
  fputc(0, out);
  what = (size_t)ftello(out);
  print_what(r, g, out);
  fputc(0, out);
  owner = (size_t)ftello(out);
  if (g->owner) print_thread(w, g->owner, out);
  if (fclose(out) != 0) return false;
  row->ns = g->ns;
  row->stack = g->first->stack;
  row->thread = row->texts;
  row->what = row->texts + what;
  row->owner = row->texts + owner;
  return true;
}

static bool print_rows(const report_t *r, const waits_t *w, const groups_t *g, FILE *out) {
  column_t columns[sizeof group_columns / sizeof *group_columns];
  wait_row_t *rows = calloc(g->count + 1, sizeof *rows);
  bool good = rows != NULL, is_held = false;
  for (size_t i = 0; good && i < g->count; i++) {
    good = make_row(r, w, &g->items[i], &rows[i]);
    is_held |= g->items[i].owner != 0;
  }
  memcpy(columns, group_columns, sizeof columns);
  if (!is_held) table_hide(columns, "held by");
  table_t table = {TABLE(columns, rows, g->count), .summed = true};
  if (good) table_text(r, &table, report_rows(r, BRIEF_ROWS), "waits", out);
  for (size_t i = 0; rows && i < g->count; i++)
    free(rows[i].texts);
  free(rows);
  return good;
}

static bool print_waits(const report_t *r, const waits_t *w, FILE *out) {
  groups_t g = {0};
  bool good = make_groups(w, &g);
  if (g.count) qsort(g.items, g.count, sizeof *g.items, by_time);
  good = good && print_rows(r, w, &g, out);
  free(g.items);
  hash_free(&g.index);
  return good;
}

/* ---- locks -------------------------------------------------------------------------------- */

typedef struct lock_row {
  uint64_t ns, owner_ns, waiters;
  const char *owner, *lock;
  char *texts;
} lock_row_t;

static const column_t lock_text_columns[] = {
    {NULL, "time", UNIT_SECONDS, FIELD(lock_row_t, ns)},
    {NULL, "threads", UNIT_COUNT, FIELD(lock_row_t, waiters)},
    {NULL, "held", UNIT_SHARE, FIELD(lock_row_t, owner_ns), BASE(lock_row_t, ns)},
    {NULL, "by", UNIT_TEXT, FIELD(lock_row_t, owner)},
    {NULL, "lock", UNIT_TEXT, FIELD(lock_row_t, lock)},
    {0}};

/* False: out of memory. */
static bool make_lock_row(const report_t *r, const waits_t *w, const wait_lock_t *l,
                          lock_row_t *row) {
  char name[REPORT_NAME_MAX];
  size_t size, lock;
  FILE *out = open_memstream(&row->texts, &size);
  if (!out) return false;
  if (l->owner)
    print_thread(w, l->owner, out);
  else
    fputs("unknown", out);
  fputc(0, out);
  lock = (size_t)ftello(out);
  if (*l->name)
    fputs(l->name, out);
  else if (frame_names_variable(r->names, l->address, name, sizeof name))
    fputs(name, out);
  else
    fprintf(out, "0x%" PRIx64, l->address);
  if (fclose(out) != 0) return false;
  *row = (lock_row_t){.ns = l->ns,
                      .owner_ns = l->owner_ns,
                      .waiters = l->waiters,
                      .owner = row->texts,
                      .lock = row->texts + lock,
                      .texts = row->texts};
  return true;
}

static bool print_locks(const report_t *r, const waits_t *w, FILE *out) {
  if (!w->lock_count) return true;
  lock_row_t *rows = calloc(w->lock_count, sizeof *rows);
  bool good = rows != NULL;
  for (size_t i = 0; good && i < w->lock_count; i++)
    good = make_lock_row(r, w, &w->locks[i], &rows[i]);
  fprintf(out, "%s%slocks, by time waited%s\n", report_gap(r), r->bold, r->plain);
  table_t table = {TABLE(lock_text_columns, rows, w->lock_count)};
  if (good) table_text(r, &table, report_rows(r, BRIEF_ROWS), "locks", out);
  for (size_t i = 0; rows && i < w->lock_count; i++)
    free(rows[i].texts);
  free(rows);
  return good;
}

static completeness_t completeness_of(const report_t *r, const waits_t *w) {
  completeness_t c = {0};
  for (size_t i = 0; i < w->count; i++)
    if (w->items[i].stack) report_add_stack(r, &c, w->items[i].stack, w->items[i].ns);
  return c;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const waits_t *w = ranked(state);
  if (!w) return SONDE_ENOMEM;
  fprintf(out, "\n%swaits%s\n  total      %.2f s blocked, in all threads; %.2f s of it for locks\n",
          r->bold, r->plain, seconds(w->ns), seconds(w->lock_ns));
  const completeness_t complete = completeness_of(r, w);
  report_completeness_text(r, &complete, "the time", out);
  fputs(report_gap(r), out);
  return print_waits(r, w, out) && print_locks(r, w, out) ? 0 : SONDE_ENOMEM;
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
    {"name", NULL, UNIT_TEXT, FIELD(wait_lock_t, name), .optional = true},
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

static void add_variable(const report_t *r, json_object *o, uint64_t address) {
  char name[REPORT_NAME_MAX];
  if (address && frame_names_variable(r->names, address, name, sizeof name))
    json_add_text(o, "variable", name);
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
    if (!item->is_mutex || !*item->what) add_variable(r, row, item->address);
    add_thread(row, w, "owner", "owner_thread", item->owner);
    const char *kind = item->is_mutex ? "a lock" : kind_of_futex(r, item);
    if (kind) json_add_text(row, "for", kind);
    table_row_json(r, wait_columns, item, row);
    json_append(waits, row);
  }
  for (size_t i = 0; i < w->lock_count && i < r->top; i++) {
    json_object *row = json_new_object();
    table_row_json(r, lock_columns, &w->locks[i], row);
    if (!*w->locks[i].name) add_variable(r, row, w->locks[i].address);
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
