/* SPDX-License-Identifier: MIT
 *
 * The database of a store: transactions, inserted rows and queries. sqlite.c implements it on
 * SQLite; absent.c takes its place in a build without SQLite.
 *
 * One thread uses an engine. Other processes may use the same database at the same time.
 */
#ifndef SONDE_STORE_ENGINE_H
#define SONDE_STORE_ENGINE_H

#include "store/schema.h"

typedef struct engine engine_t;

/* Opens the database in the file PATH; creates it, with its tables, if CREATE is set. NULL: ERROR
 * has one line. */
engine_t *engine_open(const char *path, bool create, char *error, size_t error_size);
void engine_close(engine_t *engine);

/* Why the last function failed. */
const char *engine_error(const engine_t *engine);

/* A transaction excludes other writers. After a failure, or without a commit, nothing of it
 * remains. Inside a transaction, engine_begin does nothing; outside, engine_commit does nothing. */
bool engine_begin(engine_t *engine);
bool engine_commit(engine_t *engine);
void engine_rollback(engine_t *engine);

/* Inserts a row unless its key is there; begins a transaction. 1: inserted, 0: there is one, -1:
 * failed. */
int engine_insert(engine_t *engine, store_table_id_t table, const store_value_t *values);

/* Adds the facts of the sessions FIRST to LAST to the totals. */
bool engine_add_totals(engine_t *engine, int64_t first, int64_t last);

/* Runs a statement without a result. */
bool engine_run(engine_t *engine, const char *sql, const store_value_t *values, size_t count);

/* A query. Its values are valid until the next step. NULL: failed. */
typedef struct engine_rows engine_rows_t;
engine_rows_t *engine_query(engine_t *engine, const char *sql, const store_value_t *values,
                            size_t count);
/* 1: a row, 0: the end, -1: failed. */
int engine_step(engine_rows_t *rows);
size_t engine_column_count(const engine_rows_t *rows);
const char *engine_column_name(const engine_rows_t *rows, size_t i);
store_value_t engine_value(const engine_rows_t *rows, size_t i);
void engine_rows_end(engine_rows_t *rows);

/* Whether another connection has changed the database since the last call. False: failed. */
bool engine_is_changed(engine_t *engine, bool *out);

/* From now on the database refuses to change. */
bool engine_set_read_only(engine_t *engine);

/* The size of the database's file, and how much of it is in use. */
uint64_t engine_bytes(engine_t *engine);
uint64_t engine_used_bytes(engine_t *engine);

#endif
