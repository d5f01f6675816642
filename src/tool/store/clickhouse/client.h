/* SPDX-License-Identifier: MIT
 *
 * A database of a ClickHouse server, or of the servers of a cluster, over HTTP (address.h).
 *
 * CLICKHOUSE_USER and CLICKHOUSE_PASSWORD are sent if they are set; the URL has no credentials. One
 * thread uses a client.
 */
#ifndef SONDE_STORE_CLICKHOUSE_CLIENT_H
#define SONDE_STORE_CLICKHOUSE_CLIENT_H

#include "store/clickhouse/address.h"
#include "store/clickhouse/row_binary.h"

typedef struct clickhouse clickhouse_t;

/* Checks URL, one of address_is_url, and prepares the client; opens no connection. NULL: ERROR has
 * one line. */
clickhouse_t *clickhouse_new(const char *url, char *error, size_t error_size);
void clickhouse_free(clickhouse_t *client);

/* Why the last function failed; no secret is in it. */
const char *clickhouse_error(const clickhouse_t *client);

/* Sets the error that an answer is not one of a ClickHouse server; returns false. */
bool clickhouse_refuse(clickhouse_t *client);

const address_t *clickhouse_address(const clickhouse_t *client);

/* From now on this server of the address gets the requests; at first it is server 0. */
void clickhouse_use(clickhouse_t *client, size_t server);

/* Runs SQL outside of any database if IS_GLOBAL, else in the client's. */
bool clickhouse_run(clickhouse_t *client, const char *sql, bool is_global);

/* Runs "INSERT INTO … FORMAT RowBinary" with ROWS. */
bool clickhouse_insert(clickhouse_t *client, const char *sql, const row_bytes_t *rows);

/* Runs a SELECT that ends in FORMAT RowBinary, and calls TAKE with the values of each row, of the
 * COUNT kinds KINDS. */
bool clickhouse_select(clickhouse_t *client, const char *sql, const store_kind_t *kinds,
                       size_t count, row_take_t take, void *context);

/* The same for an answer that must be one number. */
bool clickhouse_number(clickhouse_t *client, const char *sql, int64_t *out);

/* Whether it is a ClickHouse server. Another one may take every request: what was sent to it would
 * be lost. */
bool clickhouse_check(clickhouse_t *client);

#endif
