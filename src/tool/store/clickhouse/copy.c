/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/clickhouse/digest.h"
#include "store/clickhouse/tables.h"
#include "store/queries.h"

/* So many ids are in a condition, and so many bytes. */
enum { IN_IDS_MAX = 300, IN_MAX = 32 + IN_IDS_MAX * 24 };

/* ---- rows --------------------------------------------------------------------------------- */

typedef struct filling {
  engine_t *copy;
  store_table_id_t table;
  const id_set_t *only; /* rows with these ids; NULL: all */
} filling_t;

static bool take_row(void *context, const store_value_t *values) {
  const filling_t *f = context;
  if (f->only && !id_set_has(f->only, (uint64_t)values[0].integer)) return true;
  return engine_insert(f->copy, f->table, values) >= 0;
}

static bool fill_some(clickhouse_t *c, const filling_t *filling, const char *where) {
  char sql[TABLES_SQL_MAX];
  store_kind_t kinds[STORE_COLUMNS_MAX];
  filling_t f = *filling;
  size_t count = tables_sql_select(f.table, 0, where, sql, kinds);
  return clickhouse_select(c, sql, kinds, count, take_row, &f);
}

static bool fill(clickhouse_t *c, engine_t *copy, store_table_id_t table) {
  return fill_some(c, &(filling_t){.copy = copy, .table = table}, NULL);
}

/* Gives TAKE the totals of the measures that are needed. */
static bool read_totals(clickhouse_t *c, unsigned measures, const char *where, row_take_t take,
                        void *context) {
  char sql[TABLES_SQL_MAX];
  store_kind_t kinds[STORE_COLUMNS_MAX];
  bool good = true;
  for (int i = 0; good && i < STORE_MEASURES; i++) {
    if (!(measures >> i & 1)) continue;
    size_t count = tables_sql_select(STORE_TOTALS, (store_measure_t)i, where, sql, kinds);
    good = clickhouse_select(c, sql, kinds, count, take, context);
  }
  return good;
}

/* ---- all ---------------------------------------------------------------------------------- */

static bool is_of_sessions(store_table_id_t table) {
  return table == STORE_DEVICES || table == STORE_BUILDS || table == STORE_SESSIONS;
}

static bool copy_whole(clickhouse_t *c, engine_t *copy, unsigned measures) {
  filling_t totals = {.copy = copy, .table = STORE_TOTALS};
  bool good = true;
  for (int i = 0; good && i < STORE_SESSIONS; i++)
    if (!is_of_sessions((store_table_id_t)i)) good = fill(c, copy, (store_table_id_t)i);
  return good && read_totals(c, measures, NULL, take_row, &totals) && signatures_update(copy);
}

/* ---- stacks and places -------------------------------------------------------------------- */

/* WHERE as tables_sql_stacks. */
static bool read_stacks(clickhouse_t *c, unsigned measures, const char *where, digest_t *d) {
  char sql[TABLES_SQL_MAX];
  tables_sql_stacks(measures, where, sql);
  static const store_kind_t label[] = {STORE_INTEGER, STORE_INTEGER},
                            stack[] = {STORE_INTEGER, STORE_INTEGER, STORE_BYTES};
  return clickhouse_select(c, tables_sql_labels, label, 2, digest_add_label, d) &&
         clickhouse_select(c, sql, stack, 3, digest_add_stack, d);
}

/* The frames that answers show, with their names. WHERE may keep others out. */
static bool copy_places(clickhouse_t *c, engine_t *copy, const id_set_t *sites, const char *where) {
  const filling_t frames = {.copy = copy, .table = STORE_FRAMES, .only = sites},
                  names = {.copy = copy, .table = STORE_NAMES, .only = sites};
  return fill(c, copy, STORE_IMAGES) && fill(c, copy, STORE_CAUSES) &&
         fill_some(c, &frames, where) && fill_some(c, &names, where);
}

/* ---- one stack ---------------------------------------------------------------------------- */

/* The condition that COLUMN is one of IDS; NULL if they are too many. */
static const char *one_of(const char *column, const id_set_t *ids, char out[IN_MAX]) {
  if (ids->ids.count > IN_IDS_MAX) return NULL;
  int at = snprintf(out, IN_MAX, "%s IN (0", column);
  for (size_t i = 0; i < ids->ids.count; i++)
    at += snprintf(out + at, IN_MAX - (size_t)at, ",%" PRId64, (int64_t)ids->ids.items[i]);
  snprintf(out + at, IN_MAX - (size_t)at, ")");
  return out;
}

/* The stacks with the signature of STACK. */
static bool find_equal(const digest_t *d, uint64_t stack, id_set_t *out) {
  int64_t number = id_set_find(&d->ids, stack);
  bool good = true;
  for (size_t i = 0; good && number >= 0 && i < d->stacks.count; i++)
    if (d->stacks.items[i].signature == d->stacks.items[number].signature)
      good = id_set_add(out, d->ids.ids.items[i]) >= 0;
  return good;
}

static bool add_frame(void *sites, uint64_t frame) { return id_set_add(sites, frame) >= 0; }

/* The server has the signature from before the frames got names. */
static bool set_signature(engine_t *copy, const digest_t *d, uint64_t stack) {
  int64_t number = id_set_find(&d->ids, stack);
  const store_value_t values[] = {store_id(number < 0 ? 0 : d->stacks.items[number].signature),
                                  store_id(stack)};
  return engine_run(copy, "UPDATE stacks SET signature = ? WHERE stack = ?", values, 2);
}

/* Its own row comes first: that of the digest, which is ignored, has no frames. */
static bool copy_stack(clickhouse_t *c, engine_t *copy, const copy_need_t *need) {
  char list[IN_MAX];
  digest_t d = {.by_stack = true};
  id_set_t own = {0}, equal = {0};
  const filling_t stack = {.copy = copy, .table = STORE_STACKS, .only = &own};
  d.only = &equal;
  bool good =
      id_set_add(&own, need->stack) >= 0 && read_stacks(c, 0, NULL, &d) &&
      find_equal(&d, need->stack, &equal) && fill_some(c, &stack, one_of("stack", &own, list)) &&
      set_signature(copy, &d, need->stack) &&
      query_each_frame(copy, need->stack, add_frame, &d.sites) &&
      read_totals(c, need->measures, one_of("stack", &equal, list), digest_add_total, &d) &&
      digest_insert(&d, copy) && copy_places(c, copy, &d.sites, one_of("frame", &d.sites, list));
  id_set_free(&own);
  id_set_free(&equal);
  digest_free(&d);
  return good;
}

/* ---- what a question needs ---------------------------------------------------------------- */

/* Comparisons look at all frames of the stacks. */
static bool copy_frames_of(clickhouse_t *c, engine_t *copy, const digest_t *d) {
  id_set_t used = {0};
  const filling_t stacks = {.copy = copy, .table = STORE_STACKS, .only = &used};
  bool good = true;
  for (size_t i = 0; good && i < d->sums.count; i++)
    good = id_set_add(&used, (uint64_t)d->sums.items[i].stack) >= 0;
  good =
      good && fill_some(c, &stacks, NULL) && fill(c, copy, STORE_FRAMES) && signatures_update(copy);
  id_set_free(&used);
  return good;
}

/* The frames of the stacks of the sums, which are then sites too: their names are copied. */
static bool copy_shown_frames(clickhouse_t *c, engine_t *copy, digest_t *d) {
  char list[IN_MAX];
  id_set_t shown = {0};
  const filling_t stacks = {.copy = copy, .table = STORE_STACKS, .only = &shown};
  bool good = true;
  for (size_t i = 0; good && i < d->sums.count; i++)
    good = id_set_add(&shown, (uint64_t)d->sums.items[i].stack) >= 0;
  good = good && fill_some(c, &stacks, one_of("stack", &shown, list));
  for (size_t i = 0; good && i < shown.ids.count; i++)
    good = set_signature(copy, d, shown.ids.items[i]) &&
           query_each_frame(copy, shown.ids.items[i], add_frame, &d->sites);
  id_set_free(&shown);
  return good;
}

/* Builds may have one name and different executables, as questions say. */
static bool find_builds(engine_t *copy, const char *name, id_set_t *out) {
  const store_value_t values[] = {store_text(name), store_integer(query_build(copy, name))};
  engine_rows_t *rows =
      engine_query(copy, "SELECT build FROM builds WHERE name = ? OR build = ?", values, 2);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0)
    if (id_set_add(out, (uint64_t)engine_value(rows, 0).integer) < 0) break;
  engine_rows_end(rows);
  return step == 0;
}

/* Sets *WHERE to the condition of the builds that are needed, in LIST; NULL: all. */
static bool choose_builds(engine_t *copy, const copy_need_t *need, char list[IN_MAX],
                          const char **where) {
  id_set_t builds = {0};
  bool good = !need->build || find_builds(copy, need->build, &builds);
  for (int i = 0; good && need->builds && i < 2; i++)
    good = id_set_add(&builds, (uint64_t)query_build(copy, need->builds[i])) >= 0;
  *where = need->build || need->builds ? one_of("build", &builds, list) : NULL;
  id_set_free(&builds);
  return good;
}

/* Whether there are facts of the measures: to read all stacks costs more than to ask. */
static bool has_facts(clickhouse_t *c, unsigned measures, int64_t *count) {
  char sql[128];
  bool good = true;
  *count = 0;
  for (int i = 0; good && !*count && i < STORE_MEASURES; i++) {
    if (!(measures >> i & 1)) continue;
    snprintf(sql, sizeof sql, "SELECT toInt64(count()) FROM %s FORMAT RowBinary",
             store_tables[store_measures[i].table].name);
    good = clickhouse_number(c, sql, count);
  }
  return good;
}

static bool copy_needed(clickhouse_t *c, engine_t *copy, const copy_need_t *need) {
  char list[IN_MAX];
  const char *where = NULL;
  int64_t facts;
  digest_t d = {.by_stack = need->builds != NULL};
  if (!has_facts(c, need->measures, &facts)) return false;
  if (!facts) return true;
  bool good = choose_builds(copy, need, list, &where) &&
              read_stacks(c, need->measures, where, &d) &&
              read_totals(c, need->measures, where, digest_add_total, &d);
  if (good && need->most) digest_keep_largest(&d, need->most);
  if (good && need->builds) good = copy_frames_of(c, copy, &d);
  if (good && need->with_frames && !need->builds) good = copy_shown_frames(c, copy, &d);
  good = good && digest_insert(&d, copy) &&
         copy_places(c, copy, &d.sites,
                     need->with_frames ? NULL : "frame GLOBAL IN (SELECT site FROM stacks)");
  digest_free(&d);
  return good;
}

/* ---- the copy ----------------------------------------------------------------------------- */

static bool note_renamed(engine_t *copy) {
  return engine_run(copy, "CREATE TEMP TABLE renamed (frame INTEGER PRIMARY KEY)", NULL, 0) &&
         engine_run(copy,
                    "CREATE TEMP TRIGGER rename AFTER UPDATE OF label ON main.frames BEGIN"
                    " INSERT OR IGNORE INTO renamed VALUES (new.frame); END",
                    NULL, 0);
}

static bool drop_facts(engine_t *copy) {
  char sql[64];
  bool good = true;
  for (int i = 0; good && i < STORE_TABLE_COUNT; i++) {
    snprintf(sql, sizeof sql, "DROP TABLE %s", store_tables[i].name);
    if (tables_is_fact((store_table_id_t)i)) good = engine_run(copy, sql, NULL, 0);
  }
  return good;
}

bool copy_from_server(clickhouse_t *c, engine_t *copy, const copy_need_t *need) {
  bool good = engine_begin(copy) && clickhouse_check(c) && fill(c, copy, STORE_DEVICES) &&
              fill(c, copy, STORE_BUILDS) && fill(c, copy, STORE_SESSIONS);
  if (good && need->is_whole)
    good = copy_whole(c, copy, need->measures);
  else if (good && need->stack)
    good = copy_stack(c, copy, need);
  else if (good && need->measures)
    good = copy_needed(c, copy, need);
  return good && engine_commit(copy) && note_renamed(copy) && drop_facts(copy);
}
