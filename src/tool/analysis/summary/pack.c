/* SPDX-License-Identifier: MIT
 *
 * Consecutive chunks of one stream are packed together, up to GROUP_BYTES, because the model learns
 * the program again in each packed chunk. Each packed chunk is unpacked at once and compared. If
 * the bytes differ, the chunks are compressed without columns.
 */
#include "analysis/summary/pack.h"

#include <stdlib.h>
#include <string.h>

#include "reader/internal.h"
#include "reader/packed.h"
#include "sonde/status.h"

#define GROUP_BYTES (16u << 20)

/* The limit of a group in recordings with more than MANY_STREAMS streams: a reader keeps one group
 * unpacked for each stream that was alive at the same time. */
#define STREAM_BYTES (1u << 20)
#define MANY_STREAMS 64
enum { LEVEL = 12, LEVEL_TABLES = 19 };

/* The stream of the chunks with names of functions: no thread and no monitor has it. */
#define NAMES_STREAM   UINT32_C(0xfffffff0)
#define NAMES_BYTES    (256u << 10) /* of a chunk, about */
#define NAME_MAX_BYTES 4096u        /* of a name or a path; the rest is cut off */

typedef struct group {
  byte_buffer_t chunks; /* their headers and payloads, closed */
  chunk_header_t first;
  uint32_t count;
} group_t;

typedef struct pack {
  reader_t *reader;
  FILE *out;
  pack_totals_t *totals;
} pack_t;

int pack_write_chunk(FILE *out, chunk_header_t *h, const void *payload, size_t size) {
  size_t padded = (sizeof *h + size + 7) & ~(size_t)7;
  uint8_t *chunk = calloc(1, padded);
  if (!chunk) return SONDE_ENOMEM;
  h->magic = CHUNK_MAGIC;
  h->size = (uint32_t)padded;
  h->used = (uint32_t)size;
  h->flags |= CHUNK_CLOSED;
  memcpy(chunk, h, sizeof *h);
  memcpy(chunk + sizeof *h, payload, size);
  chunk_seal(chunk, padded);
  bool good = fwrite(chunk, 1, padded, out) == padded;
  free(chunk);
  return good ? 0 : SONDE_EIO;
}

/* ---- one group ---------------------------------------------------------------------------- */

static bool unpacks_to(const byte_buffer_t *packed, const byte_buffer_t *chunks) {
  uint8_t *unpacked = NULL;
  size_t capacity = 0, size = packed_unpack(packed->items, packed->count, &unpacked, &capacity, 0);
  bool same = size == chunks->count && !memcmp(unpacked, chunks->items, size);
  free(unpacked);
  return same;
}

static bool pack_as(const group_t *g, packed_mode_t mode, byte_buffer_t *out) {
  uint8_t byte = (uint8_t)mode;
  int level = g->first.type == CHUNK_EVENTS ? LEVEL : LEVEL_TABLES;
  out->count = 0;
  if (!bytes_add(out, &byte, 1) || !bytes_number(out, g->chunks.count)) return false;
  return mode == PACKED_PLAIN ? bytes_squeeze(out, g->chunks.items, g->chunks.count, level)
                              : pack_events(g->chunks.items, g->chunks.count, level, out);
}

static int write_group(pack_t *k, group_t *g) {
  byte_buffer_t packed = {0};
  if (!g->count) return 0;
  bool columns = g->first.type == CHUNK_EVENTS && pack_as(g, PACKED_COLUMNS, &packed) &&
                 unpacks_to(&packed, &g->chunks);
  int status = columns || pack_as(g, PACKED_PLAIN, &packed) ? 0 : SONDE_ENOMEM;
  k->totals->plain += g->first.type == CHUNK_EVENTS && !columns;
  if (status == 0) {
    chunk_header_t h = {.type = g->first.type,
                        .flags = CHUNK_PACKED,
                        .stream = g->first.stream,
                        .sequence = g->first.sequence,
                        .base_time = g->first.base_time,
                        .exec_index = g->first.exec_index,
                        .records = g->count};
    status = pack_write_chunk(k->out, &h, packed.items, packed.count);
    k->totals->after += h.size;
  }
  free(packed.items);
  g->chunks.count = 0;
  g->count = 0;
  return status;
}

/* ---- all groups --------------------------------------------------------------------------- */

/* The bytes of a chunk's records. In a chunk that was not closed, they end before the zeros at its
 * end. */
static size_t used_of(const chunk_header_t *h, const uint8_t *payload, const uint8_t *end) {
  if (h->flags & CHUNK_CLOSED) return (size_t)(end - payload);
  while (end > payload && !end[-1])
    end--;
  return (size_t)(end - payload);
}

/* Adds a chunk to the group, closed, with its header's unused fields cleared. */
static bool add_chunk(group_t *g, const chunk_header_t *original, const uint8_t *payload,
                      const uint8_t *end) {
  static const uint8_t zeros[8];
  chunk_header_t h = *original;
  size_t used = used_of(original, payload, end), padding = (size_t)-used % 8;
  h.flags |= CHUNK_CLOSED;
  h.used = (uint32_t)used;
  h.size = (uint32_t)(sizeof h + used + padding);
  h.checksum = 0;
  if (!g->count++) g->first = h;
  return bytes_add(&g->chunks, &h, sizeof h) && bytes_add(&g->chunks, payload, used) &&
         bytes_add(&g->chunks, zeros, padding);
}

static bool joins(const group_t *g, const chunk_place_t *place, size_t limit) {
  return g->first.type == place->type && g->first.stream == place->stream &&
         g->first.exec_index == place->exec_index &&
         g->first.sequence + g->count == place->sequence && g->chunks.count + place->size <= limit;
}

static int pack_place(pack_t *k, const chunk_place_t *place, group_t *g, chunk_buffer_t *buffer) {
  chunk_header_t h;
  const uint8_t *payload, *end;
  k->totals->before += place->size;
  if (!reader_place(k->reader, place, buffer)) return 0;
  while (reader_chunk(buffer, &h, &payload, &end))
    if (!add_chunk(g, &h, payload, end)) return SONDE_ENOMEM;
  return 0;
}

/* ---- names of functions ------------------------------------------------------------------- */

static bool put_text(byte_buffer_t *body, const char *text) {
  size_t size = strnlen(text, NAME_MAX_BYTES);
  return bytes_number(body, size) && bytes_add(body, text, size);
}

static bool put_function(byte_buffer_t *body, const record_function_t *f) {
  return bytes_number(body, f->inlined ? FUNCTION_INLINED : 0) && bytes_number(body, f->line) &&
         put_text(body, f->name) && put_text(body, f->file);
}

bool pack_functions(const reader_t *r, const pack_names_t *names, const uint8_t *frames,
                    size_t limit, size_t *from, byte_buffer_t *out) {
  static const uint8_t type = TABLE_FUNCTIONS;
  byte_buffer_t body = {0};
  bool good = true;
  for (; good && *from < r->frames.count && out->count < limit; ++*from) {
    const record_function_t *functions;
    int count = 0;
    if (!frames || frames[*from])
      count = names->functions(names->context, &r->frames.items[*from], &functions);
    body.count = 0;
    if (count > 0) good = bytes_number(&body, r->frames.items[*from].id);
    for (int i = 0; good && i < count; i++)
      good = put_function(&body, &functions[i]);
    if (count > 0)
      good = good && bytes_add(out, &type, 1) && bytes_number(out, body.count) &&
             bytes_add(out, body.items, body.count);
  }
  free(body.items);
  return good;
}

/* Writes the names as chunks of tables. */
static int pack_names(pack_t *k, const pack_names_t *names, group_t *g) {
  chunk_header_t h = {.magic = CHUNK_MAGIC,
                      .type = CHUNK_TABLES,
                      .stream = NAMES_STREAM,
                      .exec_index = (uint16_t)reader_program(k->reader),
                      .flags = CHUNK_CLOSED};
  byte_buffer_t records = {0};
  size_t from = 0;
  int status = 0;
  while (status == 0 && from < k->reader->frames.count) {
    records.count = 0;
    if (!pack_functions(k->reader, names, NULL, NAMES_BYTES, &from, &records) ||
        !add_chunk(g, &h, records.items, records.items + records.count))
      status = SONDE_ENOMEM;
    h.sequence++;
    if (status == 0 && g->chunks.count > STREAM_BYTES) status = write_group(k, g);
  }
  free(records.items);
  return status == 0 ? write_group(k, g) : status;
}

static size_t streams_of(const reader_t *r) {
  size_t count = 0;
  for (size_t i = 0; i < r->chunks.count; i++)
    count += !i || r->chunks.items[i].stream != r->chunks.items[i - 1].stream;
  return count;
}

int pack_begin(const reader_t *reader, uint64_t features, FILE *out) {
  uint8_t page[RECORD_HEADER_SIZE] = {0};
  record_header_t h = *reader_header(reader);
  h.header_size = sizeof page;
  h.features |= features;
  h.recorder_pid = 0;
  h.shm_fd = -1;
  bool is_incomplete = reader_damage(reader)->truncated_bytes || ftello(out) == 0;
  h.file_bytes = is_incomplete ? RECORD_INCOMPLETE : 0;
  memcpy(page, &h, sizeof h);
  return fwrite(page, 1, sizeof page, out) == sizeof page ? 0 : SONDE_EIO;
}

int pack_end(const reader_t *reader, FILE *out) {
  off_t end = ftello(out);
  if (end < 0 || reader_damage(reader)->truncated_bytes) return 0;
  uint64_t size = (uint64_t)end;
  return fseeko(out, offsetof(record_header_t, file_bytes), SEEK_SET) == 0 &&
                 fwrite(&size, sizeof size, 1, out) == 1 && fseeko(out, 0, SEEK_END) == 0
             ? 0
             : SONDE_EIO;
}

int pack_program(reader_t *r, const pack_names_t *names, FILE *out, pack_totals_t *totals,
                 pack_progress_fn progress, void *context) {
  pack_t k = {.reader = r, .out = out, .totals = totals};
  group_t g = {0};
  chunk_buffer_t buffer = {0};
  size_t limit = streams_of(r) > MANY_STREAMS ? STREAM_BYTES : GROUP_BYTES;
  int status = 0;
  for (size_t i = 0; i < r->chunks.count && status == 0; i++) {
    const chunk_place_t *place = &r->chunks.items[i];
    if (names && place->type == CHUNK_TABLES && place->stream == NAMES_STREAM) continue;
    if (!joins(&g, place, limit)) status = write_group(&k, &g);
    if (status == 0) status = pack_place(&k, place, &g, &buffer);
    if (progress) progress(context, i, r->chunks.count);
  }
  if (status == 0) status = write_group(&k, &g);
  if (status == 0 && names) status = pack_names(&k, names, &g);
  free(g.chunks.items);
  free(buffer.bytes);
  return status;
}
