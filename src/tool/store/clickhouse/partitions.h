/* SPDX-License-Identifier: MIT
 *
 * Drops the partitions of old weeks (tables.h) on every server.
 */
#ifndef SONDE_STORE_CLICKHOUSE_PARTITIONS_H
#define SONDE_STORE_CLICKHOUSE_PARTITIONS_H

#include "store/clickhouse/client.h"

/* Drops the sessions and facts of weeks before WEEK, counted since 1970, and counts the recordings
 * in DROPPED. False: failed; another call drops what remains. */
bool partitions_drop(clickhouse_t *client, int64_t week, uint64_t *dropped);

#endif
