/* SPDX-License-Identifier: MIT */
#include "report/stacks/alike.h"

#include <string.h>

#include "base/array.h"

enum { DEPTH_MAX = 4096 };

typedef struct alike_item {
  const report_t *report;
  uint32_t stack;
  const char *text;
  uint64_t hash;
} alike_item_t;

static uint64_t hash_of_item(const void *alike, size_t i) {
  return ((const alike_t *)alike)->items[i].hash;
}

static uint64_t hash_of_name(const frame_name_t *name) {
  return hash_number(frame_name_hash(name) + name->line * 2 + name->inlined);
}

static uint64_t hash_of(const report_t *r, uint32_t stack, const char *text) {
  const frame_name_t *names[DEPTH_MAX];
  uint64_t hash = hash_text(HASH_START, text);
  int count = frame_names_of_stack(r->names, stack, names, DEPTH_MAX);
  for (int i = 0; i < count && i < DEPTH_MAX; i++)
    hash = hash_pair(hash, hash_of_name(names[i]));
  return hash_pair(hash, count < 0 ? stack : (uint64_t)count);
}

static bool same_file(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool same_name(const frame_name_t *a, const frame_name_t *b) {
  return a == b || (a->line == b->line && a->inlined == b->inlined &&
                    frame_name_compare(a, b) == 0 && same_file(a->file, b->file));
}

/* Deeper stacks are alike only if they are equal: the rest is not known. */
static bool same_stacks(const alike_item_t *item, const report_t *r, uint32_t stack) {
  const frame_name_t *a[DEPTH_MAX], *b[DEPTH_MAX];
  if (item->report == r && item->stack == stack) return true;
  int count = frame_names_of_stack(item->report->names, item->stack, a, DEPTH_MAX);
  if (count < 0 || count > DEPTH_MAX ||
      count != frame_names_of_stack(r->names, stack, b, DEPTH_MAX))
    return false;
  for (int i = 0; i < count; i++)
    if (!same_name(a[i], b[i])) return false;
  return true;
}

bool alike_add(alike_t *a, const report_t *r, uint32_t stack, const char *text, size_t *group) {
  uint32_t *slot;
  const alike_item_t added = {r, stack, text, hash_of(r, stack, text)};
  if (!ARRAY_GROW(a->items, a->count, a->capacity) ||
      !hash_reserve(&a->index, a->count, hash_of_item, a))
    return false;
  HASH_FIND(&a->index, added.hash, slot) {
    const alike_item_t *item = &a->items[*slot - 1];
    *group = *slot - 1;
    if (item->hash == added.hash && !strcmp(item->text, text) && same_stacks(item, r, stack))
      return true;
  }
  *group = a->count;
  a->items[a->count++] = added;
  *slot = (uint32_t)a->count;
  return true;
}

void alike_free(alike_t *a) {
  free(a->items);
  hash_free(&a->index);
  *a = (alike_t){0};
}
