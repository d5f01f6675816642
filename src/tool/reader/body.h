/* SPDX-License-Identifier: MIT
 *
 * Bodies of records: definitions in tables, and extended events (docs/format.md).
 */
#ifndef SONDE_READER_BODY_H
#define SONDE_READER_BODY_H

#include <string.h>

#include "base/varint.h"
#include "reader/reader.h"

/* ---- field by field ----------------------------------------------------------------------- */

/* A missing field reads as 0 or as an empty string, and sets `truncated`. */
typedef struct body {
  const uint8_t *p, *end;
  bool truncated;
} body_t;

static inline uint64_t body_number(body_t *b) {
  uint64_t value = 0;
  if (!varint_get(&b->p, b->end, &value)) b->truncated = true;
  return value;
}

/* A string of *SIZE bytes, not terminated by a 0. */
static inline const uint8_t *body_string(body_t *b, uint64_t *size) {
  uint64_t n = body_number(b);
  if (b->truncated || n > (uint64_t)(b->end - b->p)) {
    b->truncated = true;
    n = 0;
  }
  *size = n;
  b->p += n;
  return b->p - n;
}

/* Copies SIZE BYTES to OUT, of which there are OUT_SIZE, and terminates them. Truncates what does
 * not fit. */
static inline void body_copy_text(char *out, size_t out_size, const uint8_t *bytes, uint64_t size) {
  size_t n = size < out_size ? (size_t)size : out_size - 1;
  memcpy(out, bytes, n);
  out[n] = 0;
}

/* ---- whole bodies of extended events ------------------------------------------------------ */

/* Reads the first COUNT varints; false if the body has fewer. */
bool body_numbers(const record_event_t *event, uint64_t *out, int count);

/* The string at the start of the body: sets *TEXT, which is not terminated by a 0, and returns its
 * length. */
size_t body_text(const record_event_t *event, const char **text);

/* The string after the first COUNT varints. */
size_t body_text_after(const record_event_t *event, int count, const char **text);

/* A live block of a snapshot (EXTENDED_BLOCKS). */
typedef struct record_block {
  uint64_t address, size;
  /* of the allocation, in ticks */
  uint64_t time;
  uint32_t stack, stream;
} record_block_t;

/* Calls VISIT for each complete block of the body until VISIT returns false. Returns the result of
 * the last call, or true without one. */
typedef bool body_block_visit_t(void *context, const record_block_t *block);
bool body_blocks(const record_event_t *event, body_block_visit_t *visit, void *context);

#endif
