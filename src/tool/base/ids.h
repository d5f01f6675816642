/* SPDX-License-Identifier: MIT
 *
 * A map from ids to numbers.
 *
 * The ids of a recording are places in tables with free places, so they are in a few ranges and
 * have gaps. Pages of numbers cover these ranges: a look-up reads one word, and nearby ids are
 * nearby in memory. The memory of pages is limited, as a damaged file may have ids anywhere. Ids
 * beyond that are in a hash table.
 */
#ifndef SONDE_BASE_IDS_H
#define SONDE_BASE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

#define IDS_PAGE 4096u
/* Pages of any map: 1 MB. */
#define IDS_PAGES_ALWAYS 64u

typedef struct ids_entry {
  /* NUMBER is + 1; 0: free */
  uint32_t id, number;
} ids_entry_t;

/* All zeros: an empty map with IDS_PAGES_ALWAYS pages at most. */
typedef struct ids {
  /* numbers + 1, 0: none; by id / IDS_PAGE; NULL: no such page */
  uint32_t **pages;
  size_t page_count;
  /* pages that are allocated; that may be, besides IDS_PAGES_ALWAYS */
  size_t used, more;
  /* open addressing, at most half full */
  ids_entry_t *others;
  size_t others_mask, others_count;
} ids_t;

/* An empty map with BYTES more of pages. */
static inline ids_t ids_with(uint64_t bytes) {
  return (ids_t){.more = (size_t)(bytes / (IDS_PAGE * sizeof(uint32_t)))};
}

/* IDS is then empty. */
void ids_free(ids_t *ids);

/* For ids_find, ids_set. */
uint32_t ids_find_other(const ids_t *ids, uint32_t id);
bool ids_set_new(ids_t *ids, uint32_t id, uint32_t number);

/* The place of ID's number; NULL: it has no page. */
static ALWAYS_INLINE uint32_t *ids_place(const ids_t *ids, uint32_t id) {
  uint32_t *page = id / IDS_PAGE < ids->page_count ? ids->pages[id / IDS_PAGE] : NULL;
  return page ? &page[id % IDS_PAGE] : NULL;
}

/* The number of ID + 1; 0: it has none. */
static ALWAYS_INLINE uint32_t ids_find(const ids_t *ids, uint32_t id) {
  const uint32_t *place = ids_place(ids, id);
  if (LIKELY(place && *place)) return *place;
  return ids->others_count ? ids_find_other(ids, id) : 0;
}

/* Sets the number of ID, which may have had another one. False: out of memory. */
static inline bool ids_set(ids_t *ids, uint32_t id, uint32_t number) {
  uint32_t *place = ids_place(ids, id);
  if (UNLIKELY(!place)) return ids_set_new(ids, id, number);
  *place = number + 1;
  return true;
}

#endif
