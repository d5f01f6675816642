/* SPDX-License-Identifier: MIT
 *
 * A store: a database of many recordings, of many builds and devices, in a file or in ClickHouse.
 *
 * A recording is stored as a whole or not at all, and once, however often it is given: its rows and
 * the row of its session are one transaction. Several recordings share a transaction, which is
 * committed every few seconds, between recordings. Several processes may fill a store at the
 * same time.
 */
#ifndef SONDE_STORE_STORE_H
#define SONDE_STORE_STORE_H

#include "store/clickhouse/copy.h"
#include "store/session.h"

typedef struct store store_t;

/* A path of a store's file fits. */
enum { STORE_PATH_MAX = 4096 };

/* Opens the store at URL: "sqlite:FILE", one of clickhouse/client.h, or NULL for the user's own
 * file, in the folder for data of the XDG Base Directory Specification. NULL: ERROR has one line.
 *
 * store_create opens it to add recordings, and creates the file, or the spool of a store in
 * ClickHouse. store_open opens it to query and symbolize it: the file must exist; of a store in
 * ClickHouse, what NEED says is copied into memory. */
store_t *store_create(const char *url, char *error, size_t error_size);
store_t *store_open(const char *url, const copy_need_t *need, char *error, size_t error_size);
void store_close(store_t *store);

/* The file of the store, or its URL. */
const char *store_path(const store_t *store);

/* The size of the store; 0: unknown. */
uint64_t store_size_bytes(store_t *store);

/* Deletes the sessions of days before *DAY, counted since 1970, and counts them in DROPPED. A
 * server drops whole weeks, and *DAY becomes the first day of its own. False: ERROR has one line.
 */
bool store_drop_before(store_t *store, int64_t *day, uint64_t *dropped, char *error,
                       size_t error_size);

/* Writes what store_symbolize changed. False: ERROR has one line. */
bool store_write_names(store_t *store, char *error, size_t error_size);
engine_t *store_engine(store_t *store);

typedef struct store_counts {
  uint64_t sessions; /* inserted */
  uint64_t present;  /* that were there */
  uint64_t events;   /* of the sessions inserted */
} store_counts_t;

typedef enum store_result {
  STORE_DONE,
  STORE_UNREADABLE, /* the recording; the store is as before */
  STORE_FAILED,     /* the store; the open transaction is lost */
} store_result_t;

/* Stores all programs of the recording PATH, and adds to COUNTS. Unless the result is STORE_DONE,
 * ERROR has one line. */
store_result_t store_put(store_t *store, const char *path, const session_labels_t *labels,
                         store_counts_t *counts, char *error, size_t error_size);

/* Commits what store_put inserted, and sends it to the server. Corrects COUNTS for recordings that
 * the server had. False: ERROR has one line. */
bool store_flush(store_t *store, store_counts_t *counts, char *error, size_t error_size);

#endif
