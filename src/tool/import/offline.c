/* SPDX-License-Identifier: MIT */
#include "import/offline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/varint.h"
#include "record/header.h"

#define CHUNK_BYTES (64u << 10)

/* The stream of the tables; event streams follow. */
#define TABLES 0u

/* A stream and its chunk. Uses only `events[0]` of the writer. */
typedef struct file_stream {
  writer_t writer;
  _Alignas(8) uint8_t chunk[CHUNK_BYTES];
} file_stream_t;

struct offline {
  int fd, error;
  uint64_t size;
  record_header_t header;
  file_stream_t *streams[OFFLINE_STREAMS_MAX + 1];
  uint32_t count;
};

static void append(offline_t *r, const void *data, size_t size) {
  if (!r->error) r->error = -header_write_at(r->fd, data, size, r->size);
  r->size += size;
}

/* ---- chunks ------------------------------------------------------------------------------- */

static void begin(stream_t *s) {
  chunk_header_t *h = s->chunk;
  *h = (chunk_header_t){.magic = CHUNK_MAGIC,
                        .type = s->type,
                        .stream = s->id,
                        .sequence = s->sequence,
                        .base_time = s->last_time,
                        .base_address = s->last_address,
                        .exec_index = 1};
  s->last_stack = 0;
  s->records = 0;
  memset(s->predicted, 0, sizeof s->writer->predicted[0]);
  s->next = (uint8_t *)(h + 1);
  s->limit = (uint8_t *)h + CHUNK_BYTES - OFFLINE_EVENT_MAX;
}

static void flush(offline_t *r, stream_t *s) {
  chunk_header_t *h = s->chunk;
  if (!s->records) return;
  h->used = (uint32_t)(s->next - (uint8_t *)(h + 1));
  h->size = ALIGN_UP((uint32_t)sizeof *h + h->used, 8u);
  memset(s->next, 0, h->size - sizeof *h - h->used);
  h->close_time = s->last_time;
  h->records = s->records;
  h->flags = CHUNK_CLOSED;
  chunk_seal(h, h->size);
  append(r, h, h->size);
  s->sequence++;
}

void offline_next_chunk(offline_t *r, stream_t *s) {
  flush(r, s);
  begin(s);
}

static stream_t *new_stream(offline_t *r, uint16_t type) {
  if (r->count > OFFLINE_STREAMS_MAX) return NULL;
  file_stream_t *file = calloc(1, sizeof *file);
  if (!file) return NULL;
  stream_t *s = &file->writer.events[0];
  *s = (stream_t){.type = type,
                  .id = r->count,
                  .chunk = (chunk_header_t *)(void *)file->chunk,
                  .writer = &file->writer,
                  .predicted = file->writer.predicted[0]};
  r->streams[r->count++] = file;
  begin(s);
  return s;
}

/* ---- records ------------------------------------------------------------------------------ */

void offline_extended(offline_t *r, stream_t *s, uint64_t time, uint8_t subtype,
                      const uint64_t *numbers, unsigned count, const char *text) {
  uint8_t body[OFFLINE_EVENT_MAX];
  uint32_t size = 0;
  size_t length = text ? strnlen(text, 255) : 0;
  for (unsigned i = 0; i < count && i < 16; i++)
    size += varint_put(body + size, numbers[i]);
  if (text) {
    size += varint_put(body + size, length);
    memcpy(body + size, text, length);
    size += (uint32_t)length;
  }
  offline_reserve(r, s);
  unsigned head = EVENT_EXTENDED;
  uint8_t *q = event_time(s, s->next + 1, time, &head);
  *q++ = subtype;
  q += varint_put(q, size);
  memcpy(q, body, size);
  event_commit(s, q + size, head);
}

void offline_table(offline_t *r, table_type_t type, const uint64_t *numbers, unsigned count,
                   const offline_text_t *texts) {
  stream_t *s = &r->streams[TABLES]->writer.events[0];
  uint64_t size = count * (uint64_t)VARINT_MAX_SIZE;
  for (const offline_text_t *t = texts; t && t->bytes; t++)
    size += VARINT_MAX_SIZE + t->size;
  if (size > CHUNK_BYTES / 2) return; /* no real path is that long */
  if (s->next + 16 + size > (uint8_t *)s->chunk + CHUNK_BYTES) offline_next_chunk(r, s);
  uint8_t body[CHUNK_BYTES / 2 + VARINT_MAX_SIZE], *q = body;
  for (unsigned i = 0; i < count; i++)
    q += varint_put(q, numbers[i]);
  for (const offline_text_t *t = texts; t && t->bytes; t++) {
    q += varint_put(q, t->size);
    memcpy(q, t->bytes, t->size);
    q += t->size;
  }
  *s->next++ = (uint8_t)type;
  s->next += varint_put(s->next, (uint64_t)(q - body));
  memcpy(s->next, body, (size_t)(q - body));
  s->next += q - body;
  s->records++;
}

stream_t *offline_stream(offline_t *r, uint32_t tid, const char *name) {
  stream_t *s = new_stream(r, CHUNK_EVENTS);
  if (!s) return NULL;
  const offline_text_t texts[] = {{name, strlen(name)}, {0}};
  offline_table(r, TABLE_THREAD, (const uint64_t[]){s->id, tid, 0, 0}, 4, texts);
  return s;
}

/* ---- the file ----------------------------------------------------------------------------- */

offline_t *offline_begin(int fd) {
  offline_t *r = calloc(1, sizeof *r);
  if (!r) return NULL;
  r->fd = fd;
  if (!new_stream(r, CHUNK_TABLES)) {
    free(r);
    return NULL;
  }
  r->size = RECORD_HEADER_SIZE;
  header_init(&r->header);
  r->header.clock = RECORD_CLOCK_MONOTONIC;
  r->header.state = RECORD_FINISHED;
  r->header.exec_count = 1;
  return r;
}

record_header_t *offline_header(offline_t *r) { return &r->header; }

int offline_finish(offline_t *r) {
  for (uint32_t i = 0; i < r->count; i++) {
    flush(r, &r->streams[i]->writer.events[0]);
    free(r->streams[i]);
  }
  r->header.file_bytes = r->size;
  if (!r->error) r->error = -header_write(&r->header, r->fd);
  int error = r->error;
  free(r);
  return -error;
}
