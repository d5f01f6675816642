/* SPDX-License-Identifier: MIT */
#include "base/ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Makes the array long enough for ID. False: out of memory. */
static bool grow_low(ids_t *ids, uint32_t id) {
  size_t count = ids->low_count ? ids->low_count : 1024;
  while (count <= id)
    count *= 2;
  uint32_t *low = calloc(count, sizeof *low);
  if (!low) return false;
  if (ids->low_count) memcpy(low, ids->low, ids->low_count * sizeof *low);
  free(ids->low);
  ids->low = low;
  ids->low_count = count;
  return true;
}

/* False: no more pages are allowed, or out of memory. */
static bool add_page(ids_t *ids, uint32_t id) {
  size_t count = ids->count > ids->expected ? ids->count : ids->expected;
  if (ids->page_count * IDS_PAGE / IDS_PER_ID > count) return false;
  if (!ids->groups && !(ids->groups = calloc(IDS_GROUPS, sizeof *ids->groups))) return false;
  ids_group_t **group = &ids->groups[id / (IDS_PAGE * IDS_GROUP)];
  if (!*group && !(*group = calloc(1, sizeof **group))) return false;
  uint32_t *page = calloc(IDS_PAGE, sizeof *page);
  (*group)->pages[id / IDS_PAGE % IDS_GROUP] = page;
  ids->page_count += page != NULL;
  return page != NULL;
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

/* An id may be among the others although it has a page now; it stays there. */
bool ids_set_new(ids_t *ids, uint32_t id, uint32_t number) {
  ids_entry_t *entry = ids->others_count ? find_entry(ids, id) : NULL;
  if (!entry || !entry->number) {
    if (id < IDS_LOW && id >= ids->low_count && !grow_low(ids, id)) return false;
    if (ids_place(ids, id) || add_page(ids, id)) {
      *ids_place(ids, id) = number + 1;
      ids->count++;
      return true;
    }
    if (2 * (ids->others_count + 1) > ids->others_mask && !grow_others(ids)) return false;
    entry = find_entry(ids, id);
    ids->others_count++;
    ids->count++;
  }
  *entry = (ids_entry_t){id, number + 1};
  return true;
}

static void free_group(ids_group_t *group) {
  for (size_t i = 0; group && i < IDS_GROUP; i++)
    free(group->pages[i]);
  free(group);
}

void ids_free(ids_t *ids) {
  for (size_t i = 0; ids->groups && i < IDS_GROUPS; i++)
    free_group(ids->groups[i]);
  free(ids->groups);
  free(ids->low);
  free(ids->others);
  *ids = (ids_t){0};
}
