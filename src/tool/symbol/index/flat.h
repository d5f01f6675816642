/* SPDX-License-Identifier: MIT
 *
 * The symbols of an index, unpacked: for an index that is asked more often than it has symbols. A
 * look-up in the packed ones unpacks half a block each time.
 */
#ifndef SONDE_SYMBOL_INDEX_FLAT_H
#define SONDE_SYMBOL_INDEX_FLAT_H

#include "symbol/index/format.h"

/* The name at NAME (as in INDEX_SYMBOLS; 0: none) from OFFSET of the code up to the next one's. */
typedef struct flat_symbol {
  uint32_t offset, name;
  uint32_t into; /* the symbol starts so much before it */
  bool yields;
} flat_symbol_t;

typedef struct flat_symbols flat_symbols_t;

/* Unpacks the blocks that KEYS tell of, ascending, in SIZE bytes of DATA, for addresses of ORIGIN's
 * code. NULL when they are damaged, too many or too large, or there is no memory. */
flat_symbols_t *flat_symbols_new(const index_key_t *keys, size_t key_count, const uint8_t *data,
                                 size_t size, const index_origin_t *origin);
void flat_symbols_free(flat_symbols_t *flat);

/* The symbol of ADDRESS, which lies in the code; NULL when it is before all of them. */
const flat_symbol_t *flat_symbols_find(const flat_symbols_t *flat, uint64_t address);

#endif
