/* SPDX-License-Identifier: MIT
 *
 * Variable-length numbers whose first byte holds their length.
 *
 * A value of at most 7n bits (n = 1 … 8) takes n bytes: ((value << 1 | 1) << (n - 1)), little
 * endian, so the count of trailing zero bits of the first byte is n - 1. A larger value takes nine
 * bytes: a 0 byte and the value itself. Unlike LEB128, this coding needs no loop: one 8-byte store
 * writes a value, and one 8-byte load reads it. That matters because every malloc writes some.
 */
#ifndef SONDE_BASE_VARINT_H
#define SONDE_BASE_VARINT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VARINT_MAX_SIZE  9
#define VARINT_SHORT_MAX ((UINT64_C(1) << 56) - 1) /* the largest value of at most 8 bytes */

/* Maps a signed difference to an unsigned number; small differences give small numbers. */
static inline uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static inline int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

/* The bytes of VALUE, which is at most VARINT_SHORT_MAX. (9 * bits + 64) / 64 is bits / 7 rounded
 * up for 1 … 56 bits. The exclusive or gives the highest bit, which is one instruction on x86_64.
 */
static inline unsigned varint_short_size(uint64_t value) {
  unsigned highest = 63u ^ (unsigned)__builtin_clzll(value | 1);
  return (9 * highest + 73) >> 6;
}

/* Writes VALUE, at most VARINT_SHORT_MAX, to OUT and returns its size. All 8 bytes at OUT are
 * written; those beyond the returned size are 0. */
static inline unsigned varint_put_short(uint8_t *out, uint64_t value) {
  unsigned size = varint_short_size(value);
  uint64_t word = (value << 1 | 1) << (size - 1);
  memcpy(out, &word, 8);
  return size;
}

/* Writes any VALUE to OUT, which has space for VARINT_MAX_SIZE bytes, and returns its size. */
static inline unsigned varint_put(uint8_t *out, uint64_t value) {
  if (value <= VARINT_SHORT_MAX) return varint_put_short(out, value);
  out[0] = 0;
  memcpy(out + 1, &value, 8);
  return 9;
}

/* Reads a value at *P and advances *P. Nine bytes must be readable there, so buffers are padded. */
static inline uint64_t varint_get_padded(const uint8_t **p) {
  uint64_t word;
  memcpy(&word, *p, 8);
  unsigned size = (unsigned)__builtin_ctzll(word | 0x100) + 1;
  if (__builtin_expect(size == 9, 0)) {
    memcpy(&word, *p + 1, 8);
    *p += 9;
    return word;
  }
  *p += size;
  return word >> size & ((UINT64_C(1) << (7 * size)) - 1);
}

/* Reads a value from [*P, END) and advances *P. Returns false if the value is incomplete. */
static inline bool varint_get(const uint8_t **p, const uint8_t *end, uint64_t *value) {
  uint8_t padded[9] = {0};
  if (*p >= end) return false;
  size_t left = (size_t)(end - *p);
  unsigned size = **p ? (unsigned)__builtin_ctz(**p) + 1 : 9;
  if (size > left) return false;
  memcpy(padded, *p, size);
  const uint8_t *q = padded;
  *value = varint_get_padded(&q);
  *p += size;
  return true;
}

#endif
