/* SPDX-License-Identifier: MIT
 *
 * A map from ids to numbers.
 *
 * Most ids of a recording are places in a table, so they are in a few ranges and have gaps. An
 * array has the numbers of low ids, and pages have those of the other ranges. So nearby ids are
 * nearby in memory. A damaged file may have ids anywhere. So the memory of pages is limited by the
 * number of ids, and the other ids are in a hash table. That table holds its entries itself, which
 * base/hash.h does not: a look-up costs one cache miss less.
 */
#ifndef SONDE_BASE_IDS_H
#define SONDE_BASE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

/* Lower ids are in the array. */
#define IDS_LOW 262144u
/* Ids of a page, pages of a group, groups. */
#define IDS_PAGE   4096u
#define IDS_GROUP  1024u
#define IDS_GROUPS 1024u
/* A map may have pages with so many numbers for each id. */
#define IDS_PER_ID 16u

typedef struct ids_group {
  uint32_t *pages[IDS_GROUP];
} ids_group_t;

/* NUMBER is + 1; 0: a free entry. */
typedef struct ids_entry {
  uint32_t id, number;
} ids_entry_t;

/* An empty map is all zeros, except `expected`. */
typedef struct ids {
  /* Numbers + 1 of low ids; 0: none. So in pages. */
  uint32_t *low;
  size_t low_count;
  /* IDS_GROUPS of them; NULL before the first page */
  ids_group_t **groups;
  size_t page_count;
  /* ids with a number; how many there may be later, 0: unknown */
  size_t count, expected;
  /* open addressing, at most half full */
  ids_entry_t *others;
  size_t others_mask, others_count;
} ids_t;

/* IDS is then empty. */
void ids_free(ids_t *ids);

/* For ids_find and ids_set. */
uint32_t ids_find_other(const ids_t *ids, uint32_t id);
bool ids_set_new(ids_t *ids, uint32_t id, uint32_t number);

/* Where the number of ID is, or would be; NULL: it has neither a place in the array nor a page. */
static ALWAYS_INLINE uint32_t *ids_place(const ids_t *ids, uint32_t id) {
  if (LIKELY(id < ids->low_count)) return &ids->low[id];
  const ids_group_t *group = ids->groups ? ids->groups[id / (IDS_PAGE * IDS_GROUP)] : NULL;
  uint32_t *page = group ? group->pages[id / IDS_PAGE % IDS_GROUP] : NULL;
  return page ? &page[id % IDS_PAGE] : NULL;
}

/* The number of ID + 1; 0: it has none. */
static ALWAYS_INLINE uint32_t ids_find(const ids_t *ids, uint32_t id) {
  const uint32_t *place = ids_place(ids, id);
  if (LIKELY(place && *place)) return *place;
  return ids->others_count ? ids_find_other(ids, id) : 0;
}

/* Sets the number of ID, which may have another one. False: out of memory. */
static inline bool ids_set(ids_t *ids, uint32_t id, uint32_t number) {
  uint32_t *place = ids_place(ids, id);
  if (UNLIKELY(!place || !*place)) return ids_set_new(ids, id, number);
  *place = number + 1;
  return true;
}

#endif
