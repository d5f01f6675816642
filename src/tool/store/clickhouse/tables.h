/* SPDX-License-Identifier: MIT
 *
 * The statements for a store's tables in ClickHouse, from the descriptions of schema.h. They use
 * what version 18.16 and current versions share: no window functions, no CTEs, no TTL. Conditions
 * and joins with other tables are GLOBAL, so that they hold for tables over several servers.
 *
 * Besides the columns of schema.h, facts have the build and the day of their session. They are in
 * the order of builds and stacks, so a query adds up neighbors, and equal columns compress well. By
 * the day, retention drops partitions. Frames and names have a version, because rows cannot be
 * changed.
 */
#ifndef SONDE_STORE_CLICKHOUSE_TABLES_H
#define SONDE_STORE_CLICKHOUSE_TABLES_H

#include "store/clickhouse/address.h"
#include "store/schema.h"

enum { TABLES_SQL_MAX = 8192 };

bool tables_is_fact(store_table_id_t table);

/* Whether it is partitioned by the week of a session. */
bool tables_has_day(store_table_id_t table);

/* Of a cluster, a table is `Distributed` over the shards' tables NAME_local. */
#define TABLES_LOCAL "_local"
const char *tables_suffix(const address_t *address);

/* Create the table with the rows of one server, and the one over all shards. Totals have none. */
void tables_sql_create(store_table_id_t table, const address_t *address, char out[TABLES_SQL_MAX]);
void tables_sql_distribute(store_table_id_t table, const address_t *address,
                           char out[TABLES_SQL_MAX]);

/* The statement for clickhouse_insert, and the one that reads the rows to send from the local
 * database: ?1 is the version. Sessions and facts have the ids of the table `sending`.
 * ONLY_RENAMED: those of frames in the table `renamed`. */
void tables_sql_insert(store_table_id_t table, char out[TABLES_SQL_MAX]);
void tables_sql_read(store_table_id_t table, bool only_renamed, char out[TABLES_SQL_MAX]);

/* The SELECT of all rows of a table, each once; of totals, those of MEASURE. WHERE, unless NULL, is
 * a condition of the rows of stacks, frames, names or totals. Sets KINDS to the kinds of the
 * columns and returns their count. */
size_t tables_sql_select(store_table_id_t table, store_measure_t measure, const char *where,
                         char out[TABLES_SQL_MAX], store_kind_t kinds[STORE_COLUMNS_MAX]);

/* The SELECT of all frames with their label. */
extern const char tables_sql_labels[];

/* The SELECT of stacks with their site and frames: those of facts of MEASURES, a bit for each, that
 * fulfill WHERE. NULL: of all stacks. */
void tables_sql_stacks(unsigned measures, const char *where, char out[TABLES_SQL_MAX]);

#endif
