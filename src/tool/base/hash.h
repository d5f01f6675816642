/* SPDX-License-Identifier: MIT
 *
 * A hash index over an array of items: open addressing with linear probing, at most half full. A
 * slot holds the number + 1 of an item; the items hold their own keys. Nothing is removed.
 *
 *   static uint64_t hash_of_item(const void *table, size_t i) {
 *     return hash_number(((const table_t *)table)->items[i].key);
 *   }
 *
 *   uint32_t *slot;
 *   if (!hash_reserve(&t->index, t->count, hash_of_item, t)) …  // out of memory
 *   HASH_FIND(&t->index, hash_number(key), slot) {
 *     if (t->items[*slot - 1].key == key) return &t->items[*slot - 1];
 *   }
 *   t->items[t->count++] = …;                                   // *slot is 0: a free slot
 *   *slot = (uint32_t)t->count;
 *
 * An empty index is all zeros. HASH_FIND and hash_free_slot need an index that was reserved.
 */
#ifndef SONDE_BASE_HASH_H
#define SONDE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct hash_index {
  /* The number + 1 of an item; 0: free. */
  uint32_t *slots;
  /* The count of slots, a power of two, minus 1. */
  size_t mask;
} hash_index_t;

/* The hash of item I of TABLE. Its lowest bits choose the slot. */
typedef uint64_t hash_item_t(const void *table, size_t i);

/* Hashes whose 32 lowest bits depend on all bits of the key (Fibonacci hashing). */
static inline uint64_t hash_number(uint64_t key) {
  uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

static inline uint64_t hash_pair(uint64_t a, uint64_t b) {
  return hash_number(a ^ b * UINT64_C(0xff51afd7ed558ccd));
}

/* FNV-1a, continued from HASH: HASH_START at first. */
#define HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t size) {
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* The terminating 0 counts, so that ("a", "bc") and ("ab", "c") differ. */
static inline uint64_t hash_text(uint64_t hash, const char *text) {
  return hash_bytes(hash, text, strlen(text) + 1);
}

/* The first free slot for HASH. */
static inline uint32_t *hash_free_slot(const hash_index_t *index, uint64_t hash) {
  size_t i = (size_t)hash & index->mask;
  while (index->slots[i])
    i = (i + 1) & index->mask;
  return &index->slots[i];
}

/* Makes space for one item more than the COUNT items of TABLE; false when memory runs out. An empty
 * index is filled with these items. Of items with equal keys, the last is found first. */
static inline bool hash_reserve(hash_index_t *index, size_t count, hash_item_t *hash_of,
                                const void *table) {
  if (2 * (count + 1) <= index->mask) return true;
  hash_index_t grown = {.mask = index->slots ? 2 * index->mask + 1 : 127};
  while (2 * (count + 1) > grown.mask)
    grown.mask = 2 * grown.mask + 1;
  grown.slots = calloc(grown.mask + 1, sizeof *grown.slots);
  if (!grown.slots) return false;
  for (size_t i = count; i-- > 0;)
    *hash_free_slot(&grown, hash_of(table, i)) = (uint32_t)(i + 1);
  free(index->slots);
  *index = grown;
  return true;
}

/* Loops over the slots whose items may have HASH. Without a break, SLOT is then a free slot, where
 * an item with HASH belongs. */
#define HASH_FIND(index, hash, slot)                                                               \
  for (size_t slot##_at = (size_t)(hash) & (index)->mask;                                          \
       (slot = &(index)->slots[slot##_at], *slot); slot##_at = (slot##_at + 1) & (index)->mask)

/* Removes all items and keeps the memory. */
static inline void hash_clear(hash_index_t *index) {
  if (index->slots) memset(index->slots, 0, (index->mask + 1) * sizeof *index->slots);
}

/* Frees the memory. The index is then empty. */
static inline void hash_free(hash_index_t *index) {
  free(index->slots);
  *index = (hash_index_t){0};
}

#endif
