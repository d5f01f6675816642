/* SPDX-License-Identifier: MIT
 *
 * The index's number coding: LEB128 varints (DWARF 5 section 7.6), zigzag for signed ones, and the
 * checksum of its pages.
 */
#ifndef SONDE_SYMBOL_INDEX_PACKED_H
#define SONDE_SYMBOL_INDEX_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct cursor {
  const uint8_t *at, *end;
  bool bad; /* read past the end, or a number longer than 64 bits */
} cursor_t;

static inline uint64_t packed_read(cursor_t *cursor) {
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

static inline size_t packed_write(uint8_t *out, uint64_t value) {
  size_t size = 0;
  while (value >= 0x80) {
    out[size++] = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  out[size++] = (uint8_t)value;
  return size;
}

static inline uint64_t zigzag(int64_t value) {
  return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t unzigzag(uint64_t value) {
  return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* A signed difference, to be added modulo 2^64: damaged ones wrap. */
static inline uint64_t packed_delta(cursor_t *cursor) {
  return (uint64_t)unzigzag(packed_read(cursor));
}

/* Against damage, not against malice: everything that is read is checked for bounds as well. */
static inline uint64_t packed_checksum(const uint8_t *bytes, size_t size) {
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
