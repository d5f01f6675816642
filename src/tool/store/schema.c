/* SPDX-License-Identifier: MIT */
#include "store/schema.h"

#include <stdio.h>
#include <string.h>

#define ID(name)                                                                                   \
  { name, STORE_INTEGER }
#define NUMBER(name)                                                                               \
  { name, STORE_INTEGER }
#define REAL(name)                                                                                 \
  { name, STORE_REAL }
#define TEXT(name)                                                                                 \
  { name, STORE_TEXT }
#define BYTES(name)                                                                                \
  { name, STORE_BYTES }
#define FACT_KEY "session, stack, cause"
#define FACT     ID("session"), ID("stack"), ID("cause")

const store_table_t store_tables[STORE_TABLE_COUNT] = {
    [STORE_DEVICES] = {"devices", "device", {ID("device"), TEXT("name")}},
    [STORE_BUILDS] = {"builds",
                      "build",
                      {ID("build"), TEXT("name"), TEXT("program"), TEXT("build_id")}},
    [STORE_IMAGES] = {"images",
                      "image",
                      {ID("image"), TEXT("build_id"), TEXT("name"), TEXT("path")}},
    [STORE_FRAMES] = {"frames",
                      "frame",
                      {ID("frame"), ID("image"), NUMBER("offset"), NUMBER("exact"), ID("label")}},
    [STORE_NAMES] = {"names",
                     "frame, depth",
                     {ID("frame"), NUMBER("depth"), TEXT("function"), TEXT("file"),
                      NUMBER("line")}},
    [STORE_STACKS] = {"stacks",
                      "stack",
                      {ID("stack"), ID("signature"), ID("site"), NUMBER("depth"), BYTES("frames")}},
    [STORE_CAUSES] = {"causes",
                      "cause",
                      {ID("cause"), TEXT("name"), TEXT("category"), TEXT("owner"), TEXT("level")}},
    [STORE_MEASURE_NAMES] = {"measures",
                             "measure",
                             {NUMBER("measure"), TEXT("name"), TEXT("unit")}},
    [STORE_SESSIONS] = {"sessions",
                        "session",
                        {ID("session"), ID("recording"), ID("device"), ID("build"), NUMBER("pid"),
                         NUMBER("start_ns"), NUMBER("day"), NUMBER("length_ns"), NUMBER("status"),
                         NUMBER("measured"), NUMBER("events"), NUMBER("lost_events"),
                         NUMBER("threads"), NUMBER("cpu_ns"), NUMBER("peak_bytes"),
                         NUMBER("stored_ns")}},
    [STORE_SAMPLES] = {"samples", FACT_KEY, {FACT, NUMBER("samples"), NUMBER("ns")}},
    [STORE_STALLS] = {"stalls",
                      FACT_KEY,
                      {FACT, NUMBER("stalls"), NUMBER("ns"), NUMBER("longest_ns")}},
    [STORE_WAITS] = {"waits", FACT_KEY, {FACT, NUMBER("samples"), NUMBER("ns")}},
    [STORE_ALLOCATIONS] = {"allocations",
                           FACT_KEY,
                           {FACT, NUMBER("blocks"), NUMBER("bytes"), NUMBER("peak_bytes"),
                            NUMBER("temporary")}},
    [STORE_LEAKS] = {"leaks", FACT_KEY, {FACT, NUMBER("blocks"), NUMBER("bytes")}},
    [STORE_CALLS] = {"calls",
                     FACT_KEY,
                     {FACT, NUMBER("calls"), NUMBER("ns"), NUMBER("total_ns"),
                      NUMBER("longest_ns")}},
    [STORE_AUDIT] = {"audit", FACT_KEY, {FACT, NUMBER("rows"), NUMBER("calls")}},
    [STORE_CRASHES] = {"crashes", FACT_KEY, {FACT, NUMBER("crashes"), NUMBER("amount")}},
    [STORE_TOTALS] = {"totals",
                      "measure, build, stack, cause",
                      {NUMBER("measure"), ID("build"), ID("stack"), ID("cause"), NUMBER("sessions"),
                       NUMBER("count"), NUMBER("amount"), REAL("squares")}},
};

const store_measure_info_t store_measures[STORE_MEASURES] = {
#define STORE_MEASURE_ENTRY(name, table, unit) {#name, table, unit},
    STORE_MEASURE_TABLE(STORE_MEASURE_ENTRY)
#undef STORE_MEASURE_ENTRY
};

const char store_sql_views[] =
    "CREATE VIEW IF NOT EXISTS places AS SELECT f.frame AS frame, i.name AS module,"
    " " STORE_FUNCTION " AS function,"
    " coalesce(n.file, '') AS file, coalesce(n.line, 0) AS line FROM frames f" STORE_NAMED ";";

store_value_t store_text(const char *text) {
  return (store_value_t){.kind = STORE_TEXT, .bytes = text, .size = strlen(text)};
}

store_value_t store_bytes(const void *bytes, size_t size) {
  return (store_value_t){.kind = STORE_BYTES, .bytes = bytes, .size = size};
}

size_t store_column_count(const store_table_t *table) {
  size_t count = 0;
  while (count < STORE_COLUMNS_MAX && table->columns[count].name)
    count++;
  return count;
}

size_t store_measure_extras(store_measure_t measure) {
  return store_column_count(&store_tables[store_measures[measure].table]) - FACT_FIRST_VALUE - 2;
}

bool store_extra_is_maximum(store_measure_t measure, size_t i) {
  const store_table_t *table = &store_tables[store_measures[measure].table];
  return !strcmp(table->columns[FACT_FIRST_VALUE + 2 + i].name, "longest_ns");
}

/* ---- SQL ---------------------------------------------------------------------------------- */

static size_t put(char *out, size_t at, const char *text) {
  int n = snprintf(out + at, STORE_SQL_MAX - at, "%s", text);
  return at + (size_t)n;
}

/* A key of one number is the row's own number; the rows of a longer key are stored in its order. */
void store_sql_create(const store_table_t *table, char out[STORE_SQL_MAX]) {
  static const char *const kinds[] = {"INTEGER", "REAL", "TEXT", "BLOB"};
  bool is_single = !strchr(table->key, ',');
  size_t at = put(out, 0, "CREATE TABLE IF NOT EXISTS ");
  at = put(out, at, table->name);
  for (size_t i = 0; i < store_column_count(table); i++) {
    at = put(out, at, i ? ", " : " (");
    at = put(out, at, table->columns[i].name);
    at = put(out, at, " ");
    at = put(out, at, kinds[table->columns[i].kind]);
    at = put(out, at, is_single && !i ? " PRIMARY KEY" : " NOT NULL");
  }
  if (!is_single) {
    at = put(out, at, ", PRIMARY KEY (");
    at = put(out, at, table->key);
    put(out, at, ")) WITHOUT ROWID");
  } else {
    put(out, at, ")");
  }
}

void store_sql_insert(const store_table_t *table, char out[STORE_SQL_MAX]) {
  size_t at = put(out, 0, "INSERT OR IGNORE INTO ");
  at = put(out, at, table->name);
  for (size_t i = 0; i < store_column_count(table); i++)
    at = put(out, at, i ? ", ?" : " VALUES (?");
  put(out, at, ")");
}

void store_sql_add_totals(store_measure_t measure, char out[STORE_SQL_MAX]) {
  const store_table_t *table = &store_tables[store_measures[measure].table];
  const char *count = table->columns[FACT_FIRST_VALUE].name;
  const char *amount = table->columns[FACT_FIRST_VALUE + 1].name;
  snprintf(out, STORE_SQL_MAX,
           "INSERT INTO totals SELECT %d, s.build, f.stack, f.cause, count(*), sum(f.%s),"
           " sum(f.%s), sum(1.0 * f.%s * f.%s) FROM %s f JOIN sessions s USING (session)"
           " WHERE f.session BETWEEN ?1 AND ?2 GROUP BY 2, 3, 4"
           " ON CONFLICT DO UPDATE SET sessions = sessions + excluded.sessions,"
           " count = count + excluded.count, amount = amount + excluded.amount,"
           " squares = squares + excluded.squares",
           measure, count, amount, amount, amount, table->name);
}
