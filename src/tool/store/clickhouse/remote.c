/* SPDX-License-Identifier: MIT */
#include "store/clickhouse/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/clickhouse/tables.h"
#include "store/id_set.h"

/* A request has about this many bytes of rows. */
#define BATCH_BYTES ((size_t)4 << 20)

/* The server is asked for so many recordings at a time. */
enum { ASKED_MAX = 2000 };

/* Rows of a loader; those of symbolization have the time, which is larger. */
#define VERSION_LOADED 1

const char *remote_error(const clickhouse_t *client, const engine_t *local) {
  const char *error = clickhouse_error(client);
  return *error ? error : engine_error(local);
}

/* ---- tables ------------------------------------------------------------------------------- */

static bool create_table(clickhouse_t *c, store_table_id_t table) {
  char sql[TABLES_SQL_MAX];
  const address_t *address = clickhouse_address(c);
  tables_sql_create(table, address, sql);
  if (!clickhouse_run(c, sql, false)) return false;
  if (!*address->cluster) return true;
  tables_sql_distribute(table, address, sql);
  return clickhouse_run(c, sql, false);
}

static bool create_on_server(clickhouse_t *c) {
  char sql[TABLES_SQL_MAX];
  snprintf(sql, sizeof sql, "CREATE DATABASE IF NOT EXISTS %s", clickhouse_address(c)->database);
  bool good = clickhouse_run(c, sql, true) && clickhouse_check(c);
  for (int i = 0; good && i < STORE_TOTALS; i++)
    good = create_table(c, (store_table_id_t)i);
  return good;
}

/* Calls WORK for each server, until it fails. */
static bool on_each_server(clickhouse_t *c, bool (*work)(clickhouse_t *)) {
  bool good = true;
  for (size_t i = 0; good && i < clickhouse_address(c)->servers; i++) {
    clickhouse_use(c, i);
    good = work(c);
  }
  clickhouse_use(c, 0);
  return good;
}

bool remote_create(clickhouse_t *c) { return on_each_server(c, create_on_server); }

typedef struct asked {
  id_set_t asked, *had;
  bool is_wrong; /* the answer is not one to the question */
} asked_t;

static bool take_recording(void *context, const store_value_t *values) {
  asked_t *a = context;
  uint64_t recording = (uint64_t)values[0].integer;
  a->is_wrong = !id_set_has(&a->asked, recording);
  return !a->is_wrong && id_set_add(a->had, recording) >= 0;
}

/* Of at most ASKED_MAX recordings; a server takes statements of 256 KiB. */
static bool ask_which(clickhouse_t *c, const uint64_t *recordings, size_t count, id_set_t *had) {
  static const store_kind_t kind = STORE_INTEGER;
  static char sql[128 + (size_t)ASKED_MAX * 24];
  asked_t asked = {.had = had};
  bool good = true;
  int at = sprintf(sql, "SELECT DISTINCT recording FROM sessions WHERE recording IN (");
  for (size_t i = 0; i < count; i++) {
    at += sprintf(sql + at, "%s%" PRId64, i ? "," : "", (int64_t)recordings[i]);
    good &= id_set_add(&asked.asked, recordings[i]) >= 0;
  }
  strcpy(sql + at, ") FORMAT RowBinary");
  good = good && clickhouse_select(c, sql, &kind, 1, take_recording, &asked);
  id_set_free(&asked.asked);
  return asked.is_wrong ? clickhouse_refuse(c) : good;
}

bool remote_which(clickhouse_t *c, const uint64_t *recordings, size_t count, id_set_t *had) {
  for (size_t i = 0; i < count; i += ASKED_MAX)
    if (!ask_which(c, recordings + i, count - i < ASKED_MAX ? count - i : ASKED_MAX, had))
      return false;
  return true;
}

uint64_t remote_bytes(clickhouse_t *c) {
  const address_t *address = clickhouse_address(c);
  char sql[TABLES_SQL_MAX];
  int64_t bytes = 0, sum = 0;
  snprintf(sql, sizeof sql,
           "SELECT toInt64(sum(bytes_on_disk)) FROM system.parts WHERE active AND database = '%s'"
           " FORMAT RowBinary",
           address->database);
  for (size_t i = 0; i < address->servers && bytes >= 0; i++, sum += bytes) {
    clickhouse_use(c, i);
    if (!clickhouse_number(c, sql, &bytes)) bytes = -1;
  }
  clickhouse_use(c, 0);
  return bytes >= 0 ? (uint64_t)sum : 0;
}

/* ---- sending ------------------------------------------------------------------------------ */

static bool send_batch(clickhouse_t *c, const char *sql, row_bytes_t *bytes) {
  bool good = !bytes->size || clickhouse_insert(c, sql, bytes);
  bytes->size = 0;
  return good;
}

static bool put_row(row_bytes_t *bytes, const engine_rows_t *rows) {
  for (size_t i = 0; i < engine_column_count(rows); i++) {
    const store_value_t value = engine_value(rows, i);
    if (!row_bytes_put(bytes, &value)) return false;
  }
  return true;
}

static bool send_table(clickhouse_t *c, engine_t *local, store_table_id_t table, int64_t version) {
  char insert[TABLES_SQL_MAX], read[TABLES_SQL_MAX];
  const store_value_t value = store_integer(version);
  row_bytes_t bytes = {0};
  tables_sql_insert(table, insert);
  tables_sql_read(table, version != VERSION_LOADED, read);
  engine_rows_t *rows = engine_query(local, read, &value, 1);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    if (put_row(&bytes, rows) && (bytes.size < BATCH_BYTES || send_batch(c, insert, &bytes)))
      continue;
    step = -1;
    break;
  }
  engine_rows_end(rows);
  bool good = step == 0 && send_batch(c, insert, &bytes);
  free(bytes.data);
  return good;
}

/* Another attempt to send a session has another id, so what an earlier one left never counts. */
static uint64_t attempt(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return id_mix(id_mix((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec), (uint64_t)getpid());
}

static bool add_sending(engine_t *spool, int64_t session, uint64_t id) {
  const store_value_t row[] = {store_integer(session), store_id(id)};
  return engine_run(spool,
                    "INSERT INTO sending SELECT session, ?2, build, day FROM sessions"
                    " WHERE session = ?1",
                    row, 2);
}

typedef struct waiting_list {
  ARRAY(int64_t) sessions;
  ARRAY(uint64_t) recordings;
} waiting_list_t;

static bool read_waiting(engine_t *spool, waiting_list_t *out) {
  engine_rows_t *rows = engine_query(spool, "SELECT session, recording FROM sessions", NULL, 0);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    int64_t *session = ARRAY_ADD(out->sessions);
    uint64_t *recording = ARRAY_ADD(out->recordings);
    if (!session || !recording) break;
    *session = engine_value(rows, 0).integer;
    *recording = (uint64_t)engine_value(rows, 1).integer;
  }
  engine_rows_end(rows);
  return step == 0;
}

static bool start_sending(engine_t *spool) {
  return engine_run(spool,
                    "CREATE TEMP TABLE IF NOT EXISTS sending (session INTEGER PRIMARY KEY,"
                    " id INTEGER, build INTEGER, day INTEGER)",
                    NULL, 0) &&
         engine_run(spool, "DELETE FROM sending", NULL, 0);
}

/* Fills the table `sending` with the COUNT sessions that the server does not have. */
static bool choose(clickhouse_t *c, engine_t *spool, id_set_t *had, uint64_t *count) {
  waiting_list_t waiting = {0};
  uint64_t nonce = attempt();
  bool good = start_sending(spool) && read_waiting(spool, &waiting) &&
              remote_which(c, waiting.recordings.items, waiting.recordings.count, had);
  *count = 0;
  for (size_t i = 0; good && i < waiting.sessions.count; i++) {
    uint64_t recording = waiting.recordings.items[i];
    if (id_set_has(had, recording)) continue;
    good = add_sending(spool, waiting.sessions.items[i], id_not_zero(id_mix(nonce, recording)));
    ++*count;
  }
  free(waiting.sessions.items);
  free(waiting.recordings.items);
  return good;
}

/* What facts refer to comes first, and the sessions' rows last. */
bool remote_send(clickhouse_t *c, engine_t *spool, id_set_t *had) {
  char sql[TABLES_SQL_MAX];
  uint64_t count;
  bool good = remote_create(c) && choose(c, spool, had, &count);
  for (int i = 0; good && count && i < STORE_TOTALS; i++)
    if (i != STORE_SESSIONS) good = send_table(c, spool, (store_table_id_t)i, VERSION_LOADED);
  if (good && count) good = send_table(c, spool, STORE_SESSIONS, VERSION_LOADED);
  for (int i = 0; good && i < STORE_TABLE_COUNT; i++) {
    snprintf(sql, sizeof sql, "DELETE FROM %s", store_tables[i].name);
    if (i != STORE_MEASURE_NAMES) good = engine_run(spool, sql, NULL, 0);
  }
  return good;
}

bool remote_send_names(clickhouse_t *c, engine_t *copy) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t version = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
  return send_table(c, copy, STORE_FRAMES, version) && send_table(c, copy, STORE_NAMES, version);
}
