/* SPDX-License-Identifier: MIT
 *
 * A hash table beside an array: open addressing, at most half full. A slot holds the number + 1 of
 * an item; the items know their own keys.
 */
#ifndef SONDE_BASE_HASH_H
#define SONDE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct slots {
  uint32_t *items; /* 0: free */
  size_t mask;     /* how many there are, less 1 */
} hash_index_t;

/* The hash of item I of TABLE; its lowest bits choose the slot. */
typedef uint64_t hash_hash_t(const void *table, size_t i);

static inline uint32_t *hash_free_one(const hash_index_t *s, uint64_t hash) {
  size_t i = (size_t)hash & s->mask;
  while (s->items[i])
    i = (i + 1) & s->mask;
  return &s->items[i];
}

/* Room for one more than the COUNT items of TABLE; false without memory. It holds all of them, or
 * nothing yet: a table may do without until then. */
static inline bool hash_grow(hash_index_t *s, size_t count, hash_hash_t *hash_of,
                             const void *table) {
  if (2 * (count + 1) <= s->mask) return true;
  hash_index_t grown = {.mask = s->items ? 2 * s->mask + 1 : 127};
  while (2 * (count + 1) > grown.mask)
    grown.mask = 2 * grown.mask + 1;
  grown.items = calloc(grown.mask + 1, sizeof *grown.items);
  if (!grown.items) return false;
  for (size_t i = 0; i < count; i++)
    *hash_free_one(&grown, hash_of(table, i)) = (uint32_t)(i + 1);
  free(s->items);
  *s = grown;
  return true;
}

/* Goes through the slots where an item of HASH may stand; ends at a free one. */
#define HASH_FIND(slots, hash, slot)                                                               \
  for (size_t slot##_at = (size_t)(hash) & (slots)->mask;                                          \
       (slot = &(slots)->items[slot##_at], *slot); slot##_at = (slot##_at + 1) & (slots)->mask)

#endif
