/* SPDX-License-Identifier: MIT
 *
 * The URL of a store in ClickHouse:
 *
 *   clickhouse://HOST[:PORT]/DATABASE          HTTP, port 8123 by default
 *   clickhouse+https://HOST[:PORT]/DATABASE    HTTPS, port 8443 by default
 *
 * With several servers, HOST[:PORT],HOST[:PORT]…/DATABASE?cluster=NAME, the tables are
 * `Distributed` over the shards of the cluster NAME, which the servers' configuration defines.
 * timeout=SECONDS limits a request. Pure.
 */
#ifndef SONDE_STORE_CLICKHOUSE_ADDRESS_H
#define SONDE_STORE_CLICKHOUSE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

enum { ADDRESS_SERVERS_MAX = 64, ADDRESS_BASE_MAX = 300, ADDRESS_NAME_MAX = 128 };
enum { ADDRESS_SECONDS = 600, ADDRESS_SECONDS_MAX = 86400 };

typedef struct address {
  size_t servers;
  char bases[ADDRESS_SERVERS_MAX][ADDRESS_BASE_MAX]; /* "http://HOST:PORT/" */
  char database[ADDRESS_NAME_MAX];
  char cluster[ADDRESS_NAME_MAX]; /* "": none */
  long seconds;                   /* that a request may take */
} address_t;

/* Whether URL has one of the two schemes. */
bool address_is_url(const char *url);

/* Reads such a URL. Returns what is wrong, or NULL. */
const char *address_read(address_t *out, const char *url);

#endif
