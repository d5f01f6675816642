/* SPDX-License-Identifier: MIT
 *
 * The code is divided into stretches whose size is a power of two, about as many as there are
 * symbols. A table maps each stretch to its first symbol, so a search compares only a few symbols.
 */
#include "symbol/index/flat.h"

#include <stdlib.h>

#include "symbol/index/coding.h"

/* 4 MB of symbols. */
#define SYMBOLS_MAX (UINT64_C(1) << 18)

struct flat_symbols {
  flat_symbol_t *symbols;
  size_t count;
  uint64_t low;
  unsigned shift;
  /* The first symbol at or after the start of each stretch, with one more at the end. */
  uint32_t *stretches;
};

/* Reads one entry, like find_symbol of read.c. False at the end or when it is damaged. */
static bool unpack(coding_cursor_t *cursor, uint64_t low, uint64_t *at, flat_symbol_t *out) {
  if (cursor->at >= cursor->end) return false;
  *at += coding_read(cursor);
  uint64_t offset = *at - low, name = coding_read(cursor), tail = name ? coding_read(cursor) : 0;
  *out = (flat_symbol_t){(uint32_t)offset, (uint32_t)name, (uint32_t)(tail >> 1), tail & 1};
  return !cursor->bad && offset <= UINT32_MAX && name <= UINT32_MAX && tail >> 1 <= UINT32_MAX;
}

static bool unpack_all(flat_symbols_t *flat, const index_key_t *keys, size_t key_count,
                       const uint8_t *data, size_t size) {
  uint32_t last = 0;
  for (size_t i = 0; i < key_count; i++) {
    uint64_t end = i + 1 < key_count ? keys[i + 1].offset : size, at = keys[i].address;
    if (end > size || keys[i].offset > end) return false;
    coding_cursor_t cursor = {data + keys[i].offset, data + end, false};
    for (size_t n = 0; n < INDEX_SYMBOL_BLOCK; n++) {
      flat_symbol_t *symbol = &flat->symbols[flat->count];
      if (!unpack(&cursor, flat->low, &at, symbol)) break;
      if (symbol->offset < last) return false;
      last = symbol->offset;
      flat->count++;
    }
    if (cursor.bad || cursor.at != cursor.end) return false;
  }
  return flat->count > 0;
}

static bool divide(flat_symbols_t *flat, uint64_t code_bytes) {
  while (code_bytes >> flat->shift > flat->count)
    flat->shift++;
  size_t stretches = (code_bytes >> flat->shift) + 1, next = 0;
  flat->stretches = malloc((stretches + 1) * sizeof *flat->stretches);
  if (!flat->stretches) return false;
  for (size_t i = 0; i <= stretches; i++) {
    while (next < flat->count && flat->symbols[next].offset < i << flat->shift)
      next++;
    flat->stretches[i] = (uint32_t)next;
  }
  return true;
}

flat_symbols_t *flat_symbols_new(const index_key_t *keys, size_t key_count, const uint8_t *data,
                                 size_t size, const index_origin_t *origin) {
  size_t capacity = key_count * INDEX_SYMBOL_BLOCK;
  flat_symbols_t *flat = capacity <= SYMBOLS_MAX ? calloc(1, sizeof *flat) : NULL;
  if (!flat) return NULL;
  flat->low = origin->code_low;
  flat->symbols = malloc((capacity + 1) * sizeof *flat->symbols);
  if (flat->symbols && unpack_all(flat, keys, key_count, data, size) &&
      divide(flat, origin->code_high - origin->code_low))
    return flat;
  flat_symbols_free(flat);
  return NULL;
}

void flat_symbols_free(flat_symbols_t *flat) {
  if (!flat) return;
  free(flat->symbols);
  free(flat->stretches);
  free(flat);
}

const flat_symbol_t *flat_symbols_find(const flat_symbols_t *flat, uint64_t address) {
  uint64_t offset = address - flat->low;
  size_t stretch = offset >> flat->shift;
  size_t low = flat->stretches[stretch], size = flat->stretches[stretch + 1] - low;
  /* The search for the first symbol after OFFSET has no branch to mispredict. */
  const flat_symbol_t *first = flat->symbols + low;
  while (size) {
    size_t half = size - size / 2;
    first += first[half - 1].offset <= offset ? half : 0;
    size -= half;
  }
  return first > flat->symbols ? first - 1 : NULL;
}
