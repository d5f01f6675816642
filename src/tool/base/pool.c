/* SPDX-License-Identifier: MIT */
#include "base/pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/unicode.h"

enum { BLOCK_BYTES = 1 << 16 };

struct pool_block {
  pool_block_t *next;
  size_t used, capacity;
  max_align_t bytes[];
};

/* SIZE is a multiple of the alignment. */
static void *take(pool_t *p, size_t size) {
  if (!p->blocks || p->blocks->capacity - p->blocks->used < size) {
    size_t capacity = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    pool_block_t *b = calloc(1, sizeof *b + capacity);
    if (!b) return NULL;
    b->next = p->blocks;
    b->capacity = capacity;
    p->blocks = b;
  }
  void *found = (char *)p->blocks->bytes + p->blocks->used;
  p->blocks->used += size;
  return found;
}

void *pool_array(pool_t *p, size_t count, size_t size) {
  bool fits = count < SIZE_MAX / 4 / (size + 1);
  size_t bytes = fits ? (count * size + sizeof(max_align_t)) / sizeof(max_align_t) : 0;
  void *found = fits ? take(p, bytes * sizeof(max_align_t)) : NULL;
  p->failed |= !found;
  return found;
}

char *pool_text(pool_t *p, const char *text) {
  size_t size = strlen(text) + 1;
  bool is_valid = unicode_is_valid(text);
  char *copy = pool_array(p, is_valid ? size : UNICODE_CLEAN_SIZE(size), 1);
  if (copy) (void)unicode_clean(text, copy);
  return copy;
}

void pool_free(pool_t *p) {
  while (p->blocks) {
    pool_block_t *next = p->blocks->next;
    free(p->blocks);
    p->blocks = next;
  }
  *p = (pool_t){0};
}
