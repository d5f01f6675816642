/* SPDX-License-Identifier: MIT
 *
 * What a question needs of a store in ClickHouse, copied into a local database. The server adds up
 * the totals. So questions are the same statements as those of SQLite, and so are the answers.
 */
#ifndef SONDE_STORE_CLICKHOUSE_COPY_H
#define SONDE_STORE_CLICKHOUSE_COPY_H

#include "store/clickhouse/client.h"
#include "store/engine.h"

/* What is copied besides the sessions, builds and devices. */
typedef struct copy_need {
  unsigned measures; /* the totals of these, a bit for each; and causes, places and names */
  bool is_whole;     /* all of them, and all rows of all tables but the facts */
  uint64_t most;     /* of the largest sums of each build so many; 0: all */
  const char *build; /* the totals of this one alone, by its name or build-id; NULL: of all */
  const char *const *builds; /* the totals and frames of these two alone; NULL: of all */
  bool with_frames;          /* of the stacks of the sums that are kept */
  uint64_t stack;            /* the totals of stacks with its signature, and its frames; 0: none */
} copy_need_t;

/* Fills COPY, a new database. Its tables of facts are dropped. From then on its table `renamed`
 * gets the frames whose names change. False: failed. */
bool copy_from_server(clickhouse_t *client, engine_t *copy, const copy_need_t *need);

#endif
