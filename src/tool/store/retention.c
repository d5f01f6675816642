/* SPDX-License-Identifier: MIT */
#include "store/retention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

typedef struct session_list {
  ARRAY(int64_t) items;
} session_list_t;

static bool run(engine_t *e, const char *sql) { return engine_run(e, sql, NULL, 0); }

static bool run_all(engine_t *e, const char *const *statements) {
  bool good = true;
  for (; good && *statements; statements++)
    good = run(e, *statements);
  return good;
}

/* ---- sessions ----------------------------------------------------------------------------- */

static bool find_old(engine_t *e, int64_t day, uint64_t *count) {
  const store_value_t value = store_integer(day);
  bool good =
      run(e, "CREATE TEMP TABLE IF NOT EXISTS dropping (session INTEGER PRIMARY KEY,"
             " build INTEGER)") &&
      run(e, "DELETE FROM dropping") &&
      engine_run(e, "INSERT INTO dropping SELECT session, build FROM sessions WHERE day < ?",
                 &value, 1);
  engine_rows_t *rows = good ? engine_query(e, "SELECT count(*) FROM dropping", NULL, 0) : NULL;
  good = rows && engine_step(rows) > 0;
  if (good) *count = (uint64_t)engine_value(rows, 0).integer;
  engine_rows_end(rows);
  return good;
}

static bool delete_sessions(engine_t *e) {
  char sql[128];
  bool good = true;
  for (int i = STORE_SESSIONS; good && i < STORE_TOTALS; i++) {
    snprintf(sql, sizeof sql, "DELETE FROM %s WHERE session IN (SELECT session FROM dropping)",
             store_tables[i].name);
    good = run(e, sql);
  }
  return good;
}

/* ---- totals ------------------------------------------------------------------------------- */

/* The sessions that remain of builds that lost some. */
static bool read_remaining(engine_t *e, session_list_t *out) {
  engine_rows_t *rows =
      engine_query(e,
                   "SELECT session FROM sessions WHERE build IN (SELECT build FROM dropping)"
                   " ORDER BY session",
                   NULL, 0);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    int64_t *session = ARRAY_ADD(out->items);
    if (!session) break;
    *session = engine_value(rows, 0).integer;
  }
  engine_rows_end(rows);
  return step == 0;
}

/* Sums of squares are added up again: subtracted, they would lose digits. */
static bool renew_totals(engine_t *e) {
  session_list_t remaining = {0};
  bool good = run(e, "DELETE FROM totals WHERE build IN (SELECT build FROM dropping)") &&
              read_remaining(e, &remaining);
  for (size_t i = 0; good && i < remaining.items.count; i++)
    good = engine_add_totals(e, remaining.items.items[i], remaining.items.items[i]);
  free(remaining.items.items);
  return good;
}

/* ---- what nothing refers to ---------------------------------------------------------------- */

static bool use_frames(engine_t *e, const store_value_t *frames) {
  int64_t frame;
  for (size_t at = 0; at + sizeof frame <= frames->size; at += sizeof frame) {
    memcpy(&frame, (const char *)frames->bytes + at, sizeof frame);
    const store_value_t value = store_integer(frame);
    if (!engine_run(e, "INSERT OR IGNORE INTO used VALUES (?)", &value, 1)) return false;
  }
  return true;
}

static bool find_used_frames(engine_t *e) {
  if (!run(e, "CREATE TEMP TABLE IF NOT EXISTS used (frame INTEGER PRIMARY KEY)") ||
      !run(e, "DELETE FROM used"))
    return false;
  engine_rows_t *rows = engine_query(e, "SELECT frames FROM stacks", NULL, 0);
  int step = -1;
  while (rows && (step = engine_step(rows)) > 0) {
    const store_value_t frames = engine_value(rows, 0);
    if (use_frames(e, &frames)) continue;
    step = -1;
    break;
  }
  engine_rows_end(rows);
  return step == 0;
}

static bool delete_unused(engine_t *e) {
  static const char *const before[] = {
      "DELETE FROM stacks WHERE stack NOT IN (SELECT stack FROM totals)",
      "DELETE FROM causes WHERE cause NOT IN (SELECT cause FROM totals)", NULL};
  static const char *const after[] = {
      "DELETE FROM frames WHERE frame NOT IN (SELECT frame FROM used)",
      "DELETE FROM names WHERE frame NOT IN (SELECT frame FROM used)",
      "DELETE FROM images WHERE image NOT IN (SELECT image FROM frames)",
      "DELETE FROM builds WHERE build NOT IN (SELECT build FROM sessions)",
      "DELETE FROM devices WHERE device NOT IN (SELECT device FROM sessions)",
      "DELETE FROM used",
      NULL};
  return run_all(e, before) && find_used_frames(e) && run_all(e, after);
}

bool retention_drop(engine_t *e, int64_t day, uint64_t *dropped) {
  *dropped = 0;
  if (!engine_begin(e) || !find_old(e, day, dropped)) return false;
  if (!*dropped) return true;
  return delete_sessions(e) && renew_totals(e) && delete_unused(e);
}
