/* SPDX-License-Identifier: MIT
 *
 * Numbers by id, for ids that a recording assigns densely: an array that the id indexes. Nearby ids
 * are nearby in memory, which a hash index would scatter. An id far above the count of the items,
 * which only a damaged file or a small recording has, does not fit; the caller keeps it otherwise.
 */
#ifndef SONDE_BASE_IDS_H
#define SONDE_BASE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* An array of this many ids is made for any recording; beyond it, of so many for each item. */
#define IDS_ALWAYS   262144u
#define IDS_PER_ITEM 16u

typedef struct ids {
  uint32_t *numbers; /* + 1 by id; 0: none */
  size_t count;
} ids_t;

/* The number of ID + 1; 0: none is known here. */
static inline uint32_t ids_find(const ids_t *ids, uint32_t id) {
  return id < ids->count ? ids->numbers[id] : 0;
}

static inline bool ids_grow(ids_t *ids, uint32_t id) {
  size_t count = ids->count ? ids->count : 1024;
  while (count <= id)
    count *= 2;
  uint32_t *grown = calloc(count, sizeof *grown);
  if (!grown) return false;
  if (ids->count) memcpy(grown, ids->numbers, ids->count * sizeof *grown);
  free(ids->numbers);
  *ids = (ids_t){grown, count};
  return true;
}

/* Whether the number of ID can be set, with ITEMS items so far. */
static inline bool ids_fits(const ids_t *ids, uint32_t id, size_t items) {
  return id < ids->count || id < IDS_ALWAYS || id / IDS_PER_ITEM <= items;
}

/* Sets the number of ID. False: it does not fit, or memory ran out. */
static inline bool ids_set(ids_t *ids, uint32_t id, size_t items, uint32_t number) {
  if (!ids_fits(ids, id, items) || (id >= ids->count && !ids_grow(ids, id))) return false;
  ids->numbers[id] = number + 1;
  return true;
}

/* IDS is then empty. */
static inline void ids_free(ids_t *ids) {
  free(ids->numbers);
  *ids = (ids_t){0};
}

#endif
