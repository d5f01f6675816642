/* SPDX-License-Identifier: MIT
 *
 * The unpacked symbols of an index, for an index with more look-ups than symbols. A look-up in
 * packed symbols unpacks half a block each time.
 */
#ifndef SONDE_SYMBOL_INDEX_FLAT_H
#define SONDE_SYMBOL_INDEX_FLAT_H

#include "symbol/index/format.h"

/* A symbol: the name at NAME (as in INDEX_SYMBOLS; 0: none) covers the code from OFFSET to the next
 * symbol. */
typedef struct flat_symbol {
  uint32_t offset, name;
  uint32_t into; /* OFFSET minus the symbol's start */
  bool yields;
} flat_symbol_t;

typedef struct flat_symbols flat_symbols_t;

/* Unpacks the blocks with these KEYS, ascending, in SIZE bytes of DATA, for addresses of ORIGIN's
 * code. NULL when they are damaged, too many or too large, or memory runs out. */
flat_symbols_t *flat_symbols_new(const index_key_t *keys, size_t key_count, const uint8_t *data,
                                 size_t size, const index_origin_t *origin);
void flat_symbols_free(flat_symbols_t *flat);

/* The symbol that covers ADDRESS, which is in the code; NULL when it is before all symbols. */
const flat_symbol_t *flat_symbols_find(const flat_symbols_t *flat, uint64_t address);

#endif
