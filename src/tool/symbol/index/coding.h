/* SPDX-License-Identifier: MIT
 *
 * The coding of numbers in an index, LEB128 (DWARF 5 section 7.6), and the checksum of its pages.
 */
#ifndef SONDE_SYMBOL_INDEX_CODING_H
#define SONDE_SYMBOL_INDEX_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/varint.h"

/* A position in coded numbers. Reading beyond the end sets `bad` and yields 0. */
typedef struct cursor {
  const uint8_t *at, *end;
  bool bad; /* a number was incomplete, or longer than 64 bits */
} coding_cursor_t;

static inline uint64_t coding_read(coding_cursor_t *cursor) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (cursor->at >= cursor->end) break;
    uint8_t byte = *cursor->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
  cursor->bad = true;
  return 0;
}

static inline size_t coding_write(uint8_t *out, uint64_t value) {
  size_t size = 0;
  while (value >= 0x80) {
    out[size++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  out[size++] = (uint8_t)value;
  return size;
}

/* A signed difference, to be added modulo 2^64: damaged differences wrap. */
static inline uint64_t coding_delta(coding_cursor_t *cursor) {
  return (uint64_t)unzigzag(coding_read(cursor));
}

/* Detects damage, not manipulation: readers check all bounds as well. */
static inline uint64_t coding_checksum(const uint8_t *bytes, size_t size) {
  uint64_t lanes[4] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u, size};
  while (size >= 32) {
    for (int i = 0; i < 4; i++) {
      uint64_t word;
      memcpy(&word, bytes + 8 * i, 8);
      lanes[i] = (lanes[i] ^ word) * 0xff51afd7ed558ccdu;
      lanes[i] ^= lanes[i] >> 29;
    }
    bytes += 32;
    size -= 32;
  }
  uint64_t sum = size;
  for (; size; size--)
    sum = (sum ^ *bytes++) * 0x100000001b3u;
  for (int i = 0; i < 4; i++)
    sum = (sum ^ lanes[i]) * 0xc4ceb9fe1a85ec53u, sum ^= sum >> 31;
  return sum;
}

#endif
