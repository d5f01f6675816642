/* SPDX-License-Identifier: MIT
 *
 * A store in a ClickHouse database.
 *
 * Recordings are stored in a local database first, the spool, and then sent as a whole: images,
 * frames, names, stacks and causes; facts; and last the rows of their sessions. A fact counts only
 * if the row of its session is there, and of a recording one session counts. So a loader or a
 * server may end at any time, and two loaders may send one recording: every recording counts once.
 */
#ifndef SONDE_STORE_CLICKHOUSE_REMOTE_H
#define SONDE_STORE_CLICKHOUSE_REMOTE_H

#include "store/clickhouse/client.h"
#include "store/engine.h"
#include "store/id_set.h"

/* Creates the database and its tables unless they are there. */
bool remote_create(clickhouse_t *client);

/* Adds to HAD those of COUNT recordings of which the database has a session. False: failed. */
bool remote_which(clickhouse_t *client, const uint64_t *recordings, size_t count, id_set_t *had);

/* Sends all sessions of SPOOL, which has an open transaction, and then deletes its rows. HAD:
 * recordings that the database had, which are not sent. False: failed; roll the transaction back.
 */
bool remote_send(clickhouse_t *client, engine_t *spool, id_set_t *had);

/* Sends the frames of COPY that got names since it was copied (copy.h), with these, in place of
 * those that the database has. */
bool remote_send_names(clickhouse_t *client, engine_t *copy);

/* The size of the database; 0: unknown. */
uint64_t remote_bytes(clickhouse_t *client);

/* Why the last function failed: the server's text, or the local database's. */
const char *remote_error(const clickhouse_t *client, const engine_t *local);

#endif
