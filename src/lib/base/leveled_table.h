/* SPDX-License-Identifier: MIT
 *
 * The geometry of the shared tables that grow without moving anything: frames and stack nodes.
 *
 * Such a table is a hash table in levels. Level 0 is small, each further level eight times as
 * large, and mapped when it is first needed. A key has one bucket, a cache line, in every level. It
 * is put into the first bucket with a free slot and never leaves it, so a search may stop at the
 * first bucket that is not full, readers need no lock, and a slot's number serves as an id for
 * ever. Slots are numbered from 1 through all levels; 0 is no slot.
 *
 * What a table stores in a slot, and how it publishes it, is the table's own business. This is the
 * geometry alone; base/leveled_map.h makes the memory.
 */
#ifndef SONDE_BASE_LEVELED_TABLE_H
#define SONDE_BASE_LEVELED_TABLE_H

#include "base/bits.h"

#define LEVELED_MAX    4
#define LEVELED_GROWTH 3 /* log2 of how much larger the next level is */

/* Spreads the bits of KEY; the upper ones are the good ones. */
static ALWAYS_INLINE uint64_t leveled_hash(uint64_t key) { return key * 0x9e3779b97f4a7c15u; }

/* Log2 of the slots in LEVEL of a table whose level 0 has 2^BITS. */
static ALWAYS_INLINE unsigned leveled_bits(unsigned bits, unsigned level) {
  return bits + level * LEVELED_GROWTH;
}

/* The number of the first slot of LEVEL. */
static ALWAYS_INLINE uint32_t leveled_first(unsigned bits, unsigned level) {
  uint32_t first = 1;
  for (unsigned i = 0; i < level; i++)
    first += (uint32_t)1 << leveled_bits(bits, i);
  return first;
}

/* The level and the index in it of the slot numbered ID. False when there is no such slot. */
static ALWAYS_INLINE bool leveled_locate(unsigned bits, uint32_t id, unsigned *level,
                                         uint32_t *index) {
  uint32_t rest = id - 1;
  for (unsigned i = 0; i < LEVELED_MAX; i++) {
    uint32_t size = (uint32_t)1 << leveled_bits(bits, i);
    if (rest < size) {
      *level = i;
      *index = rest;
      return id != 0;
    }
    rest -= size;
  }
  return false;
}

#endif
