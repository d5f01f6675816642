/* SPDX-License-Identifier: MIT
 *
 * Writes a recording from outside, from what another recorder left: the same chunks and records as
 * a program under sonde writes (docs/format.md), by the same code for its events.
 *
 * Nothing is kept but an open chunk for each stream and one for the tables. An error of the file is
 * remembered and told by offline_finish.
 */
#ifndef SONDE_IMPORT_OFFLINE_H
#define SONDE_IMPORT_OFFLINE_H

#include "record/event.h"

#define OFFLINE_STREAMS_MAX 4096u

typedef struct offline offline_t;

/* Makes the file PATH, or empties it. NULL with errno. */
offline_t *offline_create(const char *path);

/* What the header is to say; its magic, sizes and state are seen to. */
record_header_t *offline_header(offline_t *recording);

/* A new stream of events of the thread TID, called NAME. NULL when there is no memory, or there are
 * too many. */
stream_t *offline_stream(offline_t *recording, uint32_t tid, const char *name);

/* Closes the stream's chunk and begins the next. */
void offline_next_chunk(offline_t *recording, stream_t *stream);

/* Before each event: makes sure that it fits. */
#define OFFLINE_EVENT_MAX 512u
static ALWAYS_INLINE void offline_room(offline_t *recording, stream_t *stream) {
  if (UNLIKELY(stream->next >= stream->limit)) offline_next_chunk(recording, stream);
}

/* An extended event of SUBTYPE with COUNT numbers, then TEXT (NULL: none) of at most 255
 * characters. The time is that of the event before in the stream, or TIME if that is later. */
void offline_extended(offline_t *recording, stream_t *stream, uint64_t time, uint8_t subtype,
                      const uint64_t *numbers, unsigned count, const char *text);

/* A record of the tables: COUNT numbers, then TEXTS of the given sizes until one is NULL. */
typedef struct offline_text {
  const void *bytes;
  size_t size;
} offline_text_t;
void offline_table(offline_t *recording, table_type_t type, const uint64_t *numbers, unsigned count,
                   const offline_text_t *texts);

/* Closes all chunks, writes the header and frees the recording. 0 or a negative errno. */
int offline_finish(offline_t *recording);

#endif
