/* SPDX-License-Identifier: MIT */
#include "analysis/audit/policy_memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct memory_block {
  struct memory_block *next;
} memory_block_t;

static void *allocate(policy_t *p, size_t size) {
  memory_block_t *block = calloc(1, sizeof *block + size);
  if (!block) return NULL;
  block->next = p->memory;
  p->memory = block;
  return block + 1;
}

char *policy_copy(policy_t *p, const char *text, size_t size) {
  char *copy = allocate(p, size + 1);
  if (copy) memcpy(copy, text, size);
  return copy;
}

void *policy_grow(policy_t *p, void *items, size_t count, size_t each) {
  if (count & (count - 1)) return items;
  void *larger = allocate(p, (count ? 2 * count : 1) * each);
  if (larger && count) memcpy(larger, items, count * each);
  return larger;
}

void policy_free(policy_t *p) {
  if (!p) return;
  for (memory_block_t *block = p->memory, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  free(p);
}
