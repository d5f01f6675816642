/* SPDX-License-Identifier: MIT
 *
 * SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): a keyed hash that
 * tells nothing of its input to whoever does not know the key. Any thread and signal handler.
 */
#ifndef SONDE_BASE_SIPHASH_H
#define SONDE_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t siphash_rotate(uint64_t x, unsigned bits) {
  return x << bits | x >> (64 - bits);
}

static inline void siphash_rounds(uint64_t v[4], int rounds) {
  while (rounds--) {
    v[0] += v[1], v[2] += v[3];
    v[1] = siphash_rotate(v[1], 13) ^ v[0], v[3] = siphash_rotate(v[3], 16) ^ v[2];
    v[0] = siphash_rotate(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = siphash_rotate(v[1], 17) ^ v[2], v[3] = siphash_rotate(v[3], 21) ^ v[0];
    v[2] = siphash_rotate(v[2], 32);
  }
}

static inline uint64_t siphash(const uint64_t key[2], const void *data, size_t size) {
  const uint8_t *p = (const uint8_t *)data;
  uint64_t word, last = (uint64_t)size << 56;
  uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                   key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
  size_t whole = size / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    memcpy(&word, p + i, 8); /* every supported CPU is little-endian */
    v[3] ^= word;
    siphash_rounds(v, 2);
    v[0] ^= word;
  }
  for (size_t i = whole; i < size; i++)
    last |= (uint64_t)p[i] << 8 * (i - whole);
  v[3] ^= last;
  siphash_rounds(v, 2);
  v[0] ^= last;
  v[2] ^= 0xff;
  siphash_rounds(v, 4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
