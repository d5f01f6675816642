/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/partitions.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "store/clickhouse/tables.h"

typedef struct week_list {
  ARRAY(int64_t) items;
} week_list_t;

static bool take_week(void *weeks, const store_value_t *values) {
  int64_t *added = ARRAY_ADD(((week_list_t *)weeks)->items);
  if (added) *added = values[0].integer;
  return added != NULL;
}

/* The weeks before WEEK of which the server has rows of the table NAME. */
static bool find_weeks(clickhouse_t *c, const char *name, int64_t week, week_list_t *out) {
  static const store_kind_t kind = STORE_INTEGER;
  char sql[TABLES_SQL_MAX];
  snprintf(sql, sizeof sql,
           "SELECT DISTINCT toInt64(partition) FROM system.parts WHERE active AND database = '%s'"
           " AND table = '%s' AND toInt64(partition) < %" PRId64 " FORMAT RowBinary",
           clickhouse_address(c)->database, name, week);
  return clickhouse_select(c, sql, &kind, 1, take_week, out);
}

static bool drop_of_table(clickhouse_t *c, store_table_id_t table, int64_t week) {
  char name[64], sql[160];
  week_list_t weeks = {0};
  snprintf(name, sizeof name, "%s%s", store_tables[table].name,
           tables_suffix(clickhouse_address(c)));
  bool good = find_weeks(c, name, week, &weeks);
  for (size_t i = 0; good && i < weeks.items.count; i++) {
    snprintf(sql, sizeof sql, "ALTER TABLE %s DROP PARTITION %" PRId64, name, weeks.items.items[i]);
    good = clickhouse_run(c, sql, false);
  }
  free(weeks.items.items);
  return good;
}

static bool drop_on_each_server(clickhouse_t *c, store_table_id_t table, int64_t week) {
  bool good = true;
  for (size_t i = 0; good && i < clickhouse_address(c)->servers; i++) {
    clickhouse_use(c, i);
    good = drop_of_table(c, table, week);
  }
  clickhouse_use(c, 0);
  return good;
}

/* Sessions first: facts without them do not count. */
bool partitions_drop(clickhouse_t *c, int64_t week, uint64_t *dropped) {
  char sql[128];
  int64_t count = 0;
  snprintf(sql, sizeof sql,
           "SELECT toInt64(uniqExact(recording)) FROM sessions WHERE intDiv(day, 7) < %" PRId64
           " FORMAT RowBinary",
           week);
  bool good = clickhouse_number(c, sql, &count);
  for (int i = STORE_SESSIONS; good && i < STORE_TOTALS; i++)
    good = drop_on_each_server(c, (store_table_id_t)i, week);
  *dropped = (uint64_t)count;
  return good;
}
