/* SPDX-License-Identifier: MIT
 *
 * The engine on SQLite. A write-ahead log lets queries read while a loader writes; a loader that is
 * killed leaves nothing of its open transaction.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/engine.h"

/* "sond": marks the file as a store (PRAGMA application_id). */
enum { APPLICATION_ID = 0x736f6e64, BUSY_MS = 60000, PAUSE_MS = 10, CACHE_KB = 256 * 1024 };

struct engine {
  sqlite3 *db;
  sqlite3_stmt *inserts[STORE_TABLE_COUNT];
  sqlite3_stmt *totals[STORE_MEASURES];
  int64_t version;     /* of the data, as engine_is_changed saw it last */
  const char *refused; /* why the last statement was not run, if SQLite does not say it */
};

struct engine_rows {
  sqlite3_stmt *statement;
};

const char *engine_error(const engine_t *e) {
  return e->refused ? e->refused : sqlite3_errmsg(e->db);
}

static bool run(engine_t *e, const char *sql) {
  return sqlite3_exec(e->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static int64_t read_number(engine_t *e, const char *sql) {
  sqlite3_stmt *statement = NULL;
  int64_t number = -1;
  if (sqlite3_prepare_v2(e->db, sql, -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return number;
}

/* ---- opening ------------------------------------------------------------------------------ */

static bool create_tables(engine_t *e) {
  char sql[STORE_SQL_MAX];
  for (int i = 0; i < STORE_TABLE_COUNT; i++) {
    store_sql_create(&store_tables[i], sql);
    if (!run(e, sql)) return false;
  }
  for (int i = 0; i < STORE_MEASURES; i++) {
    const store_value_t row[] = {store_integer(i), store_text(store_measures[i].name),
                                 store_text(store_measures[i].unit)};
    if (engine_insert(e, STORE_MEASURE_NAMES, row) < 0) return false;
  }
  snprintf(sql, sizeof sql,
           "CREATE UNIQUE INDEX IF NOT EXISTS recordings ON sessions (recording);"
           "CREATE INDEX IF NOT EXISTS signatures ON stacks (signature);"
           "PRAGMA application_id = %d; PRAGMA user_version = %d;",
           APPLICATION_ID, STORE_SCHEMA_VERSION);
  return run(e, store_sql_views) && run(e, sql);
}

/* To change the mode, SQLite upgrades a read lock. There it does not wait for other writers, which
 * may be upgrading theirs: it reports that the file is busy at once. */
static bool set_write_ahead_log(engine_t *e) {
  for (int waited_ms = 0; !run(e, "PRAGMA journal_mode = WAL"); waited_ms += PAUSE_MS) {
    if (sqlite3_errcode(e->db) != SQLITE_BUSY || waited_ms >= BUSY_MS) return false;
    sqlite3_sleep(PAUSE_MS);
  }
  return true;
}

/* Whether another process created the tables meanwhile is seen inside the transaction. */
static bool create_once(engine_t *e) {
  if (!set_write_ahead_log(e) || !engine_begin(e)) return false;
  if (read_number(e, "PRAGMA user_version") == 0 && !create_tables(e)) {
    engine_rollback(e);
    return false;
  }
  return engine_commit(e);
}

/* The line for a file that is no store, or NULL. */
static const char *refusal(engine_t *e, bool create) {
  int64_t objects = read_number(e, "SELECT count(*) FROM sqlite_master");
  if (objects < 0) return engine_error(e);
  if (objects == 0) {
    if (!create) return "it is empty; 'sonde store' fills it";
    return create_once(e) ? refusal(e, false) : engine_error(e);
  }
  if (read_number(e, "PRAGMA application_id") != APPLICATION_ID)
    return "it is a database of another program";
  if (read_number(e, "PRAGMA user_version") != STORE_SCHEMA_VERSION)
    return "it was written by another version of sonde";
  return NULL;
}

static bool prepare(engine_t *e) {
  char sql[STORE_SQL_MAX];
  for (int i = 0; i < STORE_MEASURES; i++) {
    store_sql_add_totals((store_measure_t)i, sql);
    if (sqlite3_prepare_v3(e->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &e->totals[i], NULL))
      return false;
  }
  return true;
}

engine_t *engine_open(const char *path, bool create, char *error, size_t error_size) {
  engine_t *e = calloc(1, sizeof *e);
  char pragmas[128];
  if (!e) {
    snprintf(error, error_size, "out of memory");
    return NULL;
  }
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
  const char *why = "out of memory";
  snprintf(pragmas, sizeof pragmas, "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -%d",
           CACHE_KB);
  if (sqlite3_open_v2(path, &e->db, flags, NULL) != SQLITE_OK) {
    why = !create && access(path, F_OK) ? "there is no such file" : engine_error(e);
  } else {
    sqlite3_busy_timeout(e->db, BUSY_MS);
    why = run(e, pragmas) ? refusal(e, create) : engine_error(e);
    if (!why && !prepare(e)) why = engine_error(e);
  }
  if (!why) return e;
  snprintf(error, error_size, "%s", why);
  engine_close(e);
  return NULL;
}

void engine_close(engine_t *e) {
  if (!e) return;
  for (int i = 0; i < STORE_TABLE_COUNT; i++)
    sqlite3_finalize(e->inserts[i]);
  for (int i = 0; i < STORE_MEASURES; i++)
    sqlite3_finalize(e->totals[i]);
  sqlite3_close(e->db);
  free(e);
}

static uint64_t bytes_of(engine_t *e, int64_t pages) {
  int64_t size = read_number(e, "PRAGMA page_size");
  return pages > 0 && size > 0 ? (uint64_t)(pages * size) : 0;
}

uint64_t engine_bytes(engine_t *e) { return bytes_of(e, read_number(e, "PRAGMA page_count")); }

/* The pages of deleted rows stay in the file, and are used again. */
uint64_t engine_used_bytes(engine_t *e) {
  return bytes_of(e, read_number(e, "PRAGMA page_count") - read_number(e, "PRAGMA freelist_count"));
}

bool engine_is_changed(engine_t *e, bool *out) {
  int64_t version = read_number(e, "PRAGMA data_version");
  *out = version != e->version;
  e->version = version;
  return version >= 0;
}

bool engine_set_read_only(engine_t *e) { return run(e, "PRAGMA query_only = 1"); }

/* ---- transactions and rows ---------------------------------------------------------------- */

bool engine_begin(engine_t *e) {
  return !sqlite3_get_autocommit(e->db) || run(e, "BEGIN IMMEDIATE");
}

bool engine_commit(engine_t *e) { return sqlite3_get_autocommit(e->db) || run(e, "COMMIT"); }
void engine_rollback(engine_t *e) { (void)run(e, "ROLLBACK"); }

static int bind(sqlite3_stmt *statement, int place, const store_value_t *v) {
  switch (v->kind) {
  case STORE_INTEGER: return sqlite3_bind_int64(statement, place, v->integer);
  case STORE_REAL: return sqlite3_bind_double(statement, place, v->real);
  case STORE_TEXT:
    return sqlite3_bind_text64(statement, place, v->bytes, v->size, SQLITE_STATIC, SQLITE_UTF8);
  case STORE_BYTES: break;
  }
  return sqlite3_bind_blob64(statement, place, v->bytes ? v->bytes : "", v->size, SQLITE_STATIC);
}

static bool bind_all(sqlite3_stmt *statement, const store_value_t *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (bind(statement, (int)i + 1, &values[i]) != SQLITE_OK) return false;
  return true;
}

int engine_insert(engine_t *e, store_table_id_t id, const store_value_t *values) {
  const store_table_t *table = &store_tables[id];
  sqlite3_stmt **statement = &e->inserts[id];
  if (!engine_begin(e)) return -1;
  if (!*statement) {
    char sql[STORE_SQL_MAX];
    store_sql_insert(table, sql);
    if (sqlite3_prepare_v3(e->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL)) return -1;
  }
  bool good = bind_all(*statement, values, store_column_count(table)) &&
              sqlite3_step(*statement) == SQLITE_DONE;
  int changes = sqlite3_changes(e->db);
  sqlite3_reset(*statement);
  return good ? changes > 0 : -1;
}

bool engine_add_totals(engine_t *e, int64_t first, int64_t last) {
  const store_value_t range[] = {store_integer(first), store_integer(last)};
  for (int i = 0; i < STORE_MEASURES; i++) {
    bool good = bind_all(e->totals[i], range, 2) && sqlite3_step(e->totals[i]) == SQLITE_DONE;
    sqlite3_reset(e->totals[i]);
    if (!good) return false;
  }
  return true;
}

/* ---- queries ------------------------------------------------------------------------------ */

/* Whether TAIL, which follows a statement, has another one. White space and comments are none. */
static bool has_statement(engine_t *e, const char *tail) {
  sqlite3_stmt *next = NULL;
  bool is_empty = true;
  while (is_empty && *tail) {
    const char *from = tail;
    is_empty = sqlite3_prepare_v2(e->db, from, -1, &next, &tail) == SQLITE_OK && !next;
    if (tail == from) break;
  }
  sqlite3_finalize(next);
  return !is_empty;
}

/* Prepares the one statement of SQL. */
static bool prepare_one(engine_t *e, const char *sql, sqlite3_stmt **out) {
  const char *tail;
  e->refused = NULL;
  if (sqlite3_prepare_v2(e->db, sql, -1, out, &tail) != SQLITE_OK) return false;
  if (!*out)
    e->refused = "there is no statement";
  else if (has_statement(e, tail))
    e->refused = "only one statement is run at a time, and another one follows it";
  return !e->refused;
}

engine_rows_t *engine_query(engine_t *e, const char *sql, const store_value_t *values,
                            size_t count) {
  engine_rows_t *rows = calloc(1, sizeof *rows);
  if (!rows) return NULL;
  if (prepare_one(e, sql, &rows->statement) && bind_all(rows->statement, values, count))
    return rows;
  sqlite3_finalize(rows->statement);
  free(rows);
  return NULL;
}

bool engine_run(engine_t *e, const char *sql, const store_value_t *values, size_t count) {
  engine_rows_t *rows = engine_query(e, sql, values, count);
  bool good = rows && engine_step(rows) >= 0;
  engine_rows_end(rows);
  return good;
}

int engine_step(engine_rows_t *rows) {
  switch (sqlite3_step(rows->statement)) {
  case SQLITE_ROW: return 1;
  case SQLITE_DONE: return 0;
  default: return -1;
  }
}

size_t engine_column_count(const engine_rows_t *rows) {
  return (size_t)sqlite3_column_count(rows->statement);
}

const char *engine_column_name(const engine_rows_t *rows, size_t i) {
  return sqlite3_column_name(rows->statement, (int)i);
}

store_value_t engine_value(const engine_rows_t *rows, size_t i) {
  sqlite3_stmt *s = rows->statement;
  int at = (int)i;
  switch (sqlite3_column_type(s, at)) {
  case SQLITE_INTEGER: return store_integer(sqlite3_column_int64(s, at));
  case SQLITE_FLOAT:
    return (store_value_t){.kind = STORE_REAL, .real = sqlite3_column_double(s, at)};
  case SQLITE_TEXT: {
    const void *text = sqlite3_column_text(s, at);
    return (store_value_t){
        .kind = STORE_TEXT, .bytes = text ? text : "", .size = (size_t)sqlite3_column_bytes(s, at)};
  }
  case SQLITE_BLOB: {
    const void *bytes = sqlite3_column_blob(s, at);
    return store_bytes(bytes, (size_t)sqlite3_column_bytes(s, at));
  }
  default: return (store_value_t){.kind = STORE_TEXT, .is_null = true, .bytes = ""};
  }
}

void engine_rows_end(engine_rows_t *rows) {
  if (!rows) return;
  sqlite3_finalize(rows->statement);
  free(rows);
}
