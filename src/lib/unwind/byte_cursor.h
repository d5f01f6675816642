/* SPDX-License-Identifier: MIT
 *
 * A bounded reader of little-endian bytes, for call frame information and DWARF expressions.
 *
 * A read beyond the end returns zeros and sets `failed`, which is never cleared. So a parser may
 * read a whole structure and check once.
 */
#ifndef SONDE_UNWIND_BYTE_CURSOR_H
#define SONDE_UNWIND_BYTE_CURSOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct byte_cursor {
  const uint8_t *p, *end;
  bool failed;
} byte_cursor_t;

static inline uint64_t byte_cursor_left(const byte_cursor_t *c) {
  return (uint64_t)(c->end - c->p);
}

static inline uint64_t byte_cursor_fixed(byte_cursor_t *c, unsigned size) {
  uint64_t value = 0;
  if (byte_cursor_left(c) < size) {
    c->failed = true;
    c->p = c->end;
    return 0;
  }
  memcpy(&value, c->p, size);
  c->p += size;
  return value;
}
static inline uint8_t byte_cursor_u8(byte_cursor_t *c) { return (uint8_t)byte_cursor_fixed(c, 1); }
static inline uint16_t byte_cursor_u16(byte_cursor_t *c) {
  return (uint16_t)byte_cursor_fixed(c, 2);
}
static inline uint32_t byte_cursor_u32(byte_cursor_t *c) {
  return (uint32_t)byte_cursor_fixed(c, 4);
}
static inline uint64_t byte_cursor_u64(byte_cursor_t *c) { return byte_cursor_fixed(c, 8); }

static inline void byte_cursor_skip(byte_cursor_t *c, uint64_t size) {
  if (byte_cursor_left(c) < size) {
    c->failed = true;
    c->p = c->end;
    return;
  }
  c->p += size;
}

/* Returns the bits of a LEB128 number. *ABOVE holds the bits above its last byte: all 1 if its sign
 * is negative, otherwise 0. */
static inline uint64_t byte_cursor_leb(byte_cursor_t *c, uint64_t *above) {
  uint64_t value = 0;
  unsigned shift = 0;
  *above = 0;
  for (;;) {
    if (c->p >= c->end) {
      c->failed = true;
      return 0;
    }
    uint8_t byte = *c->p++;
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
    if (byte & 0x80) continue;
    if (shift < 64 && (byte & 0x40)) *above = ~(uint64_t)0 << shift;
    return value;
  }
}

static inline uint64_t byte_cursor_uleb(byte_cursor_t *c) {
  uint64_t above;
  return byte_cursor_leb(c, &above);
}

static inline int64_t byte_cursor_sleb(byte_cursor_t *c) {
  uint64_t above, value = byte_cursor_leb(c, &above);
  return (int64_t)(value | above);
}

#endif
