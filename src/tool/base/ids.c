/* SPDX-License-Identifier: MIT */
#include "base/ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Makes the list of pages long enough for page PAGE. */
static bool reach_page(ids_t *ids, size_t page) {
  size_t count = ids->page_count ? ids->page_count : 16;
  if (page < ids->page_count) return true;
  while (count <= page)
    count *= 2;
  uint32_t **pages = calloc(count, sizeof *pages);
  if (!pages) return false;
  if (ids->page_count) memcpy(pages, ids->pages, ids->page_count * sizeof *pages);
  free(ids->pages);
  ids->pages = pages;
  ids->page_count = count;
  return true;
}

/* False: no more pages are allowed, or out of memory. */
static bool add_page(ids_t *ids, size_t page) {
  if (ids->used >= IDS_PAGES_ALWAYS + ids->more || !reach_page(ids, page)) return false;
  ids->pages[page] = calloc(IDS_PAGE, sizeof **ids->pages);
  ids->used += ids->pages[page] != NULL;
  return ids->pages[page] != NULL;
}

/* The entry of ID, or a free one. */
static ids_entry_t *find_entry(const ids_t *ids, uint32_t id) {
  size_t i = (size_t)hash_number(id) & ids->others_mask;
  while (ids->others[i].number && ids->others[i].id != id)
    i = (i + 1) & ids->others_mask;
  return &ids->others[i];
}

static bool grow_others(ids_t *ids) {
  ids_t grown = {.others_mask = ids->others ? 2 * ids->others_mask + 1 : 127};
  grown.others = calloc(grown.others_mask + 1, sizeof *grown.others);
  if (!grown.others) return false;
  for (size_t i = 0; ids->others && i <= ids->others_mask; i++)
    if (ids->others[i].number) *find_entry(&grown, ids->others[i].id) = ids->others[i];
  free(ids->others);
  ids->others = grown.others;
  ids->others_mask = grown.others_mask;
  return true;
}

uint32_t ids_find_other(const ids_t *ids, uint32_t id) { return find_entry(ids, id)->number; }

bool ids_set_new(ids_t *ids, uint32_t id, uint32_t number) {
  if (add_page(ids, id / IDS_PAGE)) {
    *ids_place(ids, id) = number + 1;
    return true;
  }
  if (2 * (ids->others_count + 1) > ids->others_mask && !grow_others(ids)) return false;
  ids_entry_t *entry = find_entry(ids, id);
  ids->others_count += !entry->number;
  *entry = (ids_entry_t){id, number + 1};
  return true;
}

void ids_free(ids_t *ids) {
  for (size_t i = 0; i < ids->page_count; i++)
    free(ids->pages[i]);
  free(ids->pages);
  free(ids->others);
  *ids = (ids_t){0};
}
