/* SPDX-License-Identifier: MIT
 *
 * Builds the record of a table: its body first, then the record with its type byte last, so that
 * a record that is being written ends the table.
 */
#ifndef SONDE_RECORD_TABLES_H
#define SONDE_RECORD_TABLES_H

#include "base/bits.h"
#include "base/varint.h"
#include "record/format.h"

typedef struct table_body {
  uint8_t bytes[TABLE_RECORD_MAX];
  uint32_t used;
} table_body_t;

static inline void table_body_value(table_body_t *b, uint64_t value) {
  if (b->used + VARINT_MAX_SIZE <= TABLE_BODY_MAX) b->used += varint_put(b->bytes + b->used, value);
}

/* A string: its length, then its bytes, truncated at the end of the record. */
static inline void table_body_bytes(table_body_t *b, const void *data, uint32_t size) {
  uint32_t room = TABLE_BODY_MAX - b->used;
  if (room < VARINT_MAX_SIZE) return;
  if (size > room - VARINT_MAX_SIZE) size = room - VARINT_MAX_SIZE;
  table_body_value(b, size);
  memcpy(b->bytes + b->used, data, size);
  b->used += size;
}

static inline void table_body_text(table_body_t *b, const char *text) {
  uint32_t n = 0;
  while (text && text[n] && n < 4096)
    n++;
  table_body_bytes(b, text ? text : "", n);
}

/* The size of the record. */
static inline uint32_t table_body_size(const table_body_t *b) {
  return 1 + varint_short_size(b->used) + b->used;
}

static inline void table_body_put(const table_body_t *b, uint8_t type, uint8_t *out) {
  unsigned n = varint_put(out + 1, b->used);
  memcpy(out + 1 + n, b->bytes, b->used);
  store_release(out, type);
}

/* The records that summaries have, too. */
static inline void table_body_image(table_body_t *b, uint32_t id, uint64_t time, uint64_t start,
                                    uint64_t end, uint64_t slide, const uint8_t *build_id,
                                    uint32_t build_id_size, const char *path) {
  const uint64_t numbers[] = {id, time, start, end, slide};
  b->used = 0;
  for (unsigned i = 0; i < ARRAY_COUNT(numbers); i++)
    table_body_value(b, numbers[i]);
  table_body_bytes(b, build_id, build_id_size);
  table_body_text(b, path);
}

static inline void table_body_numbers(table_body_t *b, const uint64_t *numbers, uint32_t count) {
  b->used = 0;
  for (uint32_t i = 0; i < count; i++)
    table_body_value(b, numbers[i]);
}

/* Body of the process record: the pid, the program's path and its arguments. */
void table_body_process(table_body_t *b, uint32_t pid);

#endif
