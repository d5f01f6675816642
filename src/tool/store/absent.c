/* SPDX-License-Identifier: MIT
 *
 * The engine of a build without SQLite: it opens nothing.
 */
#include <stdio.h>

#include "store/engine.h"

engine_t *engine_open(const char *path, bool create, char *error, size_t error_size) {
  (void)path;
  (void)create;
  snprintf(error, error_size, "this sonde was built without SQLite");
  return NULL;
}

/* Nothing below is called, since there is no engine. */
void engine_close(engine_t *e) { (void)e; }

const char *engine_error(const engine_t *e) {
  (void)e;
  return "";
}

bool engine_begin(engine_t *e) { return e && false; }
bool engine_commit(engine_t *e) { return e && false; }
void engine_rollback(engine_t *e) { (void)e; }

int engine_insert(engine_t *e, store_table_id_t table, const store_value_t *values) {
  (void)e;
  (void)table;
  (void)values;
  return -1;
}

bool engine_add_totals(engine_t *e, int64_t first, int64_t last) { return e && first > last; }

bool engine_run(engine_t *e, const char *sql, const store_value_t *values, size_t count) {
  (void)sql;
  (void)values;
  return e && count && false;
}

engine_rows_t *engine_query(engine_t *e, const char *sql, const store_value_t *values,
                            size_t count) {
  (void)e;
  (void)sql;
  (void)values;
  (void)count;
  return NULL;
}

int engine_step(engine_rows_t *rows) {
  (void)rows;
  return -1;
}

size_t engine_column_count(const engine_rows_t *rows) {
  (void)rows;
  return 0;
}

const char *engine_column_name(const engine_rows_t *rows, size_t i) {
  (void)rows;
  (void)i;
  return "";
}

store_value_t engine_value(const engine_rows_t *rows, size_t i) {
  (void)rows;
  (void)i;
  return store_integer(0);
}

void engine_rows_end(engine_rows_t *rows) { (void)rows; }
bool engine_is_changed(engine_t *e, bool *out) { return e && out && false; }
bool engine_set_read_only(engine_t *e) { return e && false; }

uint64_t engine_bytes(engine_t *e) {
  (void)e;
  return 0;
}

uint64_t engine_used_bytes(engine_t *e) {
  (void)e;
  return 0;
}
