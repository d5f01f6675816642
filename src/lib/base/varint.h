/* SPDX-License-Identifier: MIT
 *
 * Variable-length numbers whose length stands in the first byte.
 *
 * A value of at most 7n bits (n = 1 … 8) takes n bytes: ((value << 1 | 1) << (n - 1)), little
 * endian, so the count of trailing zero bits of the first byte is n - 1. A larger value takes nine
 * bytes: a 0 byte and the value itself. Unlike LEB128 neither end loops: a value is written by one
 * 8-byte store and read by one 8-byte load, which matters where it happens at every malloc.
 */
#ifndef SONDE_BASE_VARINT_H
#define SONDE_BASE_VARINT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define VARINT_MAX_SIZE  9
#define VARINT_SHORT_MAX ((UINT64_C(1) << 56) - 1) /* the largest value of at most 8 bytes */

/* Signed differences as unsigned numbers, small ones small. */
static inline uint64_t zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }
static inline int64_t unzigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

/* Bytes that VALUE, at most VARINT_SHORT_MAX, takes. (9 * bits + 64) / 64 is bits / 7 rounded up
 * for 1 … 56 bits. */
static inline unsigned varint_short_size(uint64_t value) {
  unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
  return (9 * bits + 64) >> 6;
}

/* Writes VALUE, at most VARINT_SHORT_MAX, to OUT, which must have room for 8 bytes: those beyond
 * the returned size are set to 0. */
static inline unsigned varint_put_short(uint8_t *out, uint64_t value) {
  unsigned size = varint_short_size(value);
  uint64_t word = (value << 1 | 1) << (size - 1);
  memcpy(out, &word, 8);
  return size;
}

/* Writes any VALUE to OUT, which must have room for VARINT_MAX_SIZE bytes. */
static inline unsigned varint_put(uint8_t *out, uint64_t value) {
  if (value <= VARINT_SHORT_MAX) return varint_put_short(out, value);
  out[0] = 0;
  memcpy(out + 1, &value, 8);
  return 9;
}

/* Reads a value at *P, where 9 bytes can be read (a buffer is padded), and advances *P. */
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

/* Reads a value from [*P, END) and advances *P; false when it is not whole there. */
static inline bool varint_get(const uint8_t **p, const uint8_t *end, uint64_t *value) {
  uint8_t padded[9] = {0};
  if (*p >= end) return false;
  size_t room = (size_t)(end - *p);
  unsigned size = **p ? (unsigned)__builtin_ctz(**p) + 1 : 9;
  if (size > room) return false;
  memcpy(padded, *p, size);
  const uint8_t *q = padded;
  *value = varint_get_padded(&q);
  *p += size;
  return true;
}

#endif
