/* SPDX-License-Identifier: MIT
 *
 * The facts of a session: its recording is replayed once, and each analysis gives the facts of its
 * measure.
 */
#ifndef SONDE_STORE_SESSION_FACTS_H
#define SONDE_STORE_SESSION_FACTS_H

#include "report/frame_names.h"
#include "store/content.h"
#include "store/fact_list.h"

typedef struct session_sums {
  uint64_t events, threads, cpu_ns, peak_bytes;
  uint64_t measured; /* a bit for each measure that was recorded, even if it has no facts */
} session_sums_t;

/* Adds the facts of READER, whose recording is the file PATH, to FACTS. 0; SONDE_ENOMEM; SONDE_EIO:
 * the database failed. */
int session_collect(reader_t *reader, const char *path, content_t *content, fact_list_t *facts,
                    session_sums_t *sums);

#endif
