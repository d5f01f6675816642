/* SPDX-License-Identifier: MIT
 *
 * A leveled hash table: a table that grows without moving an entry. The frame table, the stack
 * table and the table of sampled blocks are such tables.
 *
 * Level 0 is small, and each further level is eight times as large. A level is mapped when it is
 * first needed. A key has one bucket (one cache line) in every level. An entry goes into the first
 * bucket that has a free slot, and never leaves it. So a search stops at the first bucket that is
 * not full, readers take no lock, and the number of a slot is a permanent id. Slots are numbered
 * from 1 through all levels; 0 is not a slot.
 *
 * This file holds the geometry and the memory of the levels. Each table defines its entries and
 * publishes them with its own memory order.
 */
#ifndef SONDE_CAPTURE_LEVELED_TABLE_H
#define SONDE_CAPTURE_LEVELED_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bits.h"

#define LEVELED_MAX 4

/* Log2 of the ratio between the sizes of a level and of the level before it. */
#define LEVELED_GROWTH 3

/* Spreads the bits of KEY. The upper bits of the result are the well-mixed ones. */
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

/* Ids of a table are below this number. */
#define LEVELED_SLOTS(bits) (leveled_first(bits, LEVELED_MAX))

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

/* Returns the memory of *LEVEL, 2^BITS slots of SLOT_BYTES. The first caller maps it; if several
 * threads map it at once, one succeeds and the others unmap theirs, so no thread waits. Returns
 * NULL when memory is exhausted. Async-signal-safe. */
void *leveled_map(void **level, unsigned bits, size_t slot_bytes);

#endif
