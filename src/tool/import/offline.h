/* SPDX-License-Identifier: MIT
 *
 * Writes a recording from the data of another recorder: the same chunks and records as in the
 * program (docs/format.md); events use the same code.
 *
 * Memory is one open chunk for each stream and one for the tables. offline_finish reports the first
 * error of the file. One thread uses a recording.
 */
#ifndef SONDE_IMPORT_OFFLINE_H
#define SONDE_IMPORT_OFFLINE_H

#include "record/event.h"

#define OFFLINE_STREAMS_MAX 4096u

typedef struct offline offline_t;

/* Writes into the empty file FD, which stays the caller's. NULL if memory runs out. */
offline_t *offline_begin(int fd);

/* The header, for the caller to complete; its magic, sizes and state are set. */
record_header_t *offline_header(offline_t *recording);

/* A new stream of events of the thread TID with the name NAME. NULL when memory runs out or there
 * are OFFLINE_STREAMS_MAX streams. */
stream_t *offline_stream(offline_t *recording, uint32_t tid, const char *name);

/* Closes the stream's chunk and begins the next. */
void offline_next_chunk(offline_t *recording, stream_t *stream);

#define OFFLINE_EVENT_MAX 512u

/* Makes space for an event of at most OFFLINE_EVENT_MAX bytes. Call it before each event. */
static ALWAYS_INLINE void offline_reserve(offline_t *recording, stream_t *stream) {
  if (UNLIKELY(stream->next >= stream->limit)) offline_next_chunk(recording, stream);
}

/* Writes an extended event of SUBTYPE with COUNT numbers, then TEXT (NULL: none) of at most 255
 * characters. Its time is TIME, but not before the stream's last event. */
void offline_extended(offline_t *recording, stream_t *stream, uint64_t time, uint8_t subtype,
                      const uint64_t *numbers, unsigned count, const char *text);

/* Writes a record of the tables: COUNT numbers, then TEXTS up to one whose bytes are NULL. */
typedef struct offline_text {
  const void *bytes;
  size_t size;
} offline_text_t;
void offline_table(offline_t *recording, table_type_t type, const uint64_t *numbers, unsigned count,
                   const offline_text_t *texts);

/* Closes all chunks, writes the header and frees the recording. 0 or a negative errno. FD stays
 * open.
 */
int offline_finish(offline_t *recording);

#endif
