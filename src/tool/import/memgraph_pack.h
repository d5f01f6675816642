/* SPDX-License-Identifier: MIT
 *
 * How bytes are packed in a memory graph: the container of the file, and that of a data entry.
 * Facts taken from what Apple's Symbolication framework does with such files; none of it is
 * documented.
 */
#ifndef SONDE_IMPORT_MEMGRAPH_PACK_H
#define SONDE_IMPORT_MEMGRAPH_PACK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bytes {
  const uint8_t *data;
  uint64_t size;
} bytes_t;

/* The property list of a file, and its log (empty: none). A file may be an .ips report's: a line of
 * JSON, then the graph. In "MEMGRAPH" at its beginning are, 64 bits each: version 0, offset and
 * size of the list, offset of a table of supplements; 32 bits: their number, 16: bytes of one. In
 * one: 8 characters of tag, 0, offset, size. False: it is none of these. */
bool memgraph_unwrap(const uint8_t *data, uint64_t size, bytes_t *list, bytes_t *log);

typedef enum packing {
  PACKED_NOT,
  PACKED_STORED,
  PACKED_GZIP,
  PACKED_LZFSE,
  PACKED_DAMAGED
} packing_t;

/* How a data entry is packed: before it, 32 bits each, stand the size of this header (16), its size
 * as packed, its size unpacked, and in the upper half of the last how: 0 stored, 1 gzip, 2 LZFSE.
 */
packing_t memgraph_packing(bytes_t entry);

/* The first LENGTH bytes (the whole is memgraph_unpacked_size's) of a stored or gzip entry. False:
 * it is damaged. */
bool memgraph_unpack(bytes_t entry, uint8_t *out, uint64_t length);
uint64_t memgraph_unpacked_size(bytes_t entry);

#endif
