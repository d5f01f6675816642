/* SPDX-License-Identifier: MIT
 *
 * The containers in a memory graph: the container of the file, and the container of a data entry.
 * Neither is documented; the facts are from the behavior of Apple's Symbolication framework.
 */
#ifndef SONDE_IMPORT_MEMGRAPH_PACK_H
#define SONDE_IMPORT_MEMGRAPH_PACK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct memgraph_bytes {
  const uint8_t *data;
  uint64_t size;
} memgraph_bytes_t;

/* Finds the property list of a file, and its log (empty: none). A file from an .ips report has a
 * line of JSON before the graph. A container begins with "MEMGRAPH", then 64 bits each: version 0,
 * offset and size of the list, offset of a table of supplements; then 32 bits: their number, 16:
 * the size of one. A supplement has 8 characters of tag, 0, offset, size. False for other files. */
bool memgraph_unwrap(const uint8_t *data, uint64_t size, memgraph_bytes_t *list,
                     memgraph_bytes_t *log);

typedef enum packing {
  PACKED_NOT,
  PACKED_STORED,
  PACKED_GZIP,
  PACKED_LZFSE,
  PACKED_DAMAGED
} packing_t;

/* The packing of a data entry. Its header has 32 bits each: the header's size (16), the packed
 * size, the unpacked size, and in the upper half of the last the method: 0 stored, 1 gzip, 2 LZFSE.
 */
packing_t memgraph_packing(memgraph_bytes_t entry);

/* Unpacks the first LENGTH bytes, at most memgraph_unpacked_size, of a stored or gzip entry. False
 * when it is damaged. */
bool memgraph_unpack(memgraph_bytes_t entry, uint8_t *out, uint64_t length);
uint64_t memgraph_unpacked_size(memgraph_bytes_t entry);

#endif
