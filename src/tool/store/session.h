/* SPDX-License-Identifier: MIT
 *
 * A session: one program of one recording, read in one pass into facts and a row of `sessions`.
 */
#ifndef SONDE_STORE_SESSION_H
#define SONDE_STORE_SESSION_H

#include "store/content.h"
#include "store/fact_list.h"

/* What the caller knows and the recording does not say. */
typedef struct session_labels {
  const char *device;
  const char *build; /* NULL: named after the build-id of the program */
} session_labels_t;

/* The id of READER's program of its recording: the same for the recording, a packed copy and its
 * summary. */
uint64_t session_recording_id(const reader_t *reader);

/* The image of the executable of READER's program; NULL: the recording has none. */
const record_image_t *session_executable(const reader_t *reader);

/* The name of the program. */
const char *session_program(const reader_t *reader);

/* Returns whether the program of READER still runs and is recorded. */
bool session_is_open(const reader_t *reader);

/* What session_store inserted. */
typedef struct session_put {
  int64_t session;
  uint64_t events;
} session_put_t;

/* Reads READER, whose recording is the file PATH, and inserts all rows of its session. 0: it is
 * already there; 1: it was inserted; SONDE_ENOMEM; SONDE_EIO: the database failed. */
int session_store(reader_t *reader, const char *path, engine_t *engine, content_known_t *known,
                  const session_labels_t *labels, session_put_t *out);

/* Whether the session with this id of session_recording_id is in the database; -1: failed. */
int session_is_stored(engine_t *engine, uint64_t recording);

#endif
