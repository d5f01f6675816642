/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/tables.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of a recording that two loaders sent at the same time, one session counts. */
#define COMMITTED "session GLOBAL IN (SELECT min(session) FROM sessions GROUP BY recording)"

/* A name counts more than none, and a later one more than an earlier one. */
#define LATEST_LABEL                                                                               \
  "argMax(label, version + if(bitAnd(label, 1) = 0, toInt64(4611686018427387904), toInt64(0)))"

static const char *const types[] = {"Int64", "Float64", "String", "String"};

static void put(char *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(char *out, const char *format, ...) {
  size_t at = strlen(out);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out + at, TABLES_SQL_MAX - at, format, arguments);
  va_end(arguments);
}

bool tables_is_fact(store_table_id_t table) {
  return table > STORE_SESSIONS && table < STORE_TOTALS;
}

/* The columns that the server's table has besides, up to NULL. */
static const char *const *extras_of(store_table_id_t table) {
  static const char *const fact[] = {"build", "day", NULL}, *const name[] = {"version", NULL},
                           *const none[] = {NULL};
  if (tables_is_fact(table)) return fact;
  return table == STORE_FRAMES || table == STORE_NAMES ? name : none;
}

/* Rows with different labels or versions are kept: a merge drops equal rows only. */
static const char *order_of(store_table_id_t table) {
  switch (table) {
  case STORE_FRAMES: return "frame, label, version";
  case STORE_NAMES: return "frame, version, depth";
  case STORE_SESSIONS: return "recording, session";
  default: return tables_is_fact(table) ? "build, stack, cause, session" : store_tables[table].key;
  }
}

static void put_columns(char *out, const store_table_t *table, bool with_types) {
  for (size_t i = 0; i < store_column_count(table); i++)
    put(out, "%s%s%s%s", i ? ", " : "", table->columns[i].name, with_types ? " " : "",
        with_types ? types[table->columns[i].kind] : "");
}

bool tables_has_day(store_table_id_t id) { return tables_is_fact(id) || id == STORE_SESSIONS; }

static void put_create(char *out, store_table_id_t id, const char *suffix) {
  put(out, "CREATE TABLE IF NOT EXISTS %s%s (", store_tables[id].name, suffix);
  put_columns(out, &store_tables[id], true);
  for (const char *const *extra = extras_of(id); *extra; extra++)
    put(out, ", %s Int64", *extra);
}

const char *tables_suffix(const address_t *address) {
  return *address->cluster ? TABLES_LOCAL : "";
}

void tables_sql_create(store_table_id_t id, const address_t *address, char out[TABLES_SQL_MAX]) {
  *out = 0;
  put_create(out, id, tables_suffix(address));
  put(out, ") ENGINE = %s%s ORDER BY (%s)", tables_has_day(id) ? "MergeTree" : "ReplacingMergeTree",
      tables_has_day(id) ? " PARTITION BY intDiv(day, 7)" : "", order_of(id));
}

/* The rows of a stack are on one shard, which adds them up; rows of equal keys too, so that one
 * shard merges them. */
static const char *shard_key(store_table_id_t id) {
  return id == STORE_SESSIONS ? "recording"
         : tables_is_fact(id) ? "stack"
                              : store_tables[id].columns[0].name;
}

void tables_sql_distribute(store_table_id_t id, const address_t *address,
                           char out[TABLES_SQL_MAX]) {
  *out = 0;
  put_create(out, id, "");
  put(out, ") ENGINE = Distributed(%s, %s, %s%s, intHash64(%s))", address->cluster,
      address->database, store_tables[id].name, TABLES_LOCAL, shard_key(id));
}

void tables_sql_insert(store_table_id_t id, char out[TABLES_SQL_MAX]) {
  *out = 0;
  put(out, "INSERT INTO %s (", store_tables[id].name);
  put_columns(out, &store_tables[id], false);
  for (const char *const *extra = extras_of(id); *extra; extra++)
    put(out, ", %s", *extra);
  put(out, ") FORMAT RowBinary");
}

void tables_sql_read(store_table_id_t id, bool only_renamed, char out[TABLES_SQL_MAX]) {
  const store_table_t *table = &store_tables[id];
  *out = 0;
  put(out, "SELECT ");
  if (!tables_is_fact(id) && id != STORE_SESSIONS) {
    put_columns(out, table, false);
    put(out, "%s FROM %s WHERE ?1 > 0", *extras_of(id) ? ", ?1" : "", table->name);
    if (only_renamed) put(out, " AND frame IN (SELECT frame FROM renamed)");
    return;
  }
  put(out, "sending.id");
  for (size_t i = 1; i < store_column_count(table); i++)
    put(out, ", t.%s", table->columns[i].name);
  if (tables_is_fact(id)) put(out, ", sending.build, sending.day");
  put(out, " FROM %s t JOIN sending ON sending.session = t.session WHERE ?1 > 0", table->name);
}

static void put_totals(char *out, store_measure_t measure, const char *where) {
  const store_table_t *table = &store_tables[store_measures[measure].table];
  const char *count = table->columns[FACT_FIRST_VALUE].name;
  const char *amount = table->columns[FACT_FIRST_VALUE + 1].name;
  put(out,
      "SELECT toInt64(%d), build, stack, cause, toInt64(count()), toInt64(sum(%s)),"
      " toInt64(sum(%s)), sum(toFloat64(%s) * toFloat64(%s)) FROM %s WHERE " COMMITTED
      " AND %s GROUP BY build, stack, cause",
      measure, count, amount, amount, amount, table->name, where);
}

/* Of rows with equal keys, which are equal, one. */
static void put_distinct(char *out, const store_table_t *table, const char *where) {
  for (size_t i = 1; i < store_column_count(table); i++)
    put(out, ", any(%s)", table->columns[i].name);
  put(out, " FROM %s WHERE %s GROUP BY %s", table->name, where, table->key);
}

const char tables_sql_labels[] =
    "SELECT frame, " LATEST_LABEL " FROM frames GROUP BY frame FORMAT RowBinary";

void tables_sql_stacks(unsigned measures, const char *where, char out[TABLES_SQL_MAX]) {
  *out = 0;
  put(out, "SELECT stack, any(site), any(frames) FROM stacks WHERE %d", !where);
  for (int i = 0; where && i < STORE_MEASURES; i++)
    if (measures >> i & 1)
      put(out, " OR stack GLOBAL IN (SELECT stack FROM %s WHERE %s)",
          store_tables[store_measures[i].table].name, where);
  put(out, " GROUP BY stack FORMAT RowBinary");
}

size_t tables_sql_select(store_table_id_t id, store_measure_t measure, const char *where,
                         char out[TABLES_SQL_MAX], store_kind_t kinds[STORE_COLUMNS_MAX]) {
  const store_table_t *table = &store_tables[id];
  size_t count = store_column_count(table);
  for (size_t i = 0; i < count; i++)
    kinds[i] = table->columns[i].kind;
  *out = 0;
  if (!where) where = "1";
  if (id == STORE_TOTALS) {
    put_totals(out, measure, where);
  } else if (id == STORE_SESSIONS) {
    put(out, "SELECT ");
    put_columns(out, table, false);
    put(out, " FROM sessions WHERE " COMMITTED);
  } else if (id == STORE_FRAMES) {
    put(out,
        "SELECT frame, any(image), any(offset), any(exact), " LATEST_LABEL
        " FROM frames WHERE %s GROUP BY frame",
        where);
  } else if (id == STORE_NAMES) {
    put(out,
        "SELECT frame, depth, any(function), any(file), any(line) FROM names GLOBAL ALL INNER JOIN"
        " (SELECT frame, max(version) AS version FROM names WHERE %s GROUP BY frame) AS newest"
        " USING (frame, version) GROUP BY frame, depth",
        where);
  } else {
    put(out, "SELECT %s", table->key);
    put_distinct(out, table, where);
  }
  put(out, " FORMAT RowBinary");
  return count;
}
