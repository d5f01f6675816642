/* SPDX-License-Identifier: MIT
 *
 * Memory graphs (.memgraph), as leaks, Xcode and ReportCrash write them: what an import can use of
 * one. They are property lists whose layout Apple does not publish, so that the whole list is
 * searched, whatever its keys are, for
 *   - images: text with a "Binary Images:" section, or dictionaries that have an address and a path
 *   - a stack table ("MslUniquingTable")
 *   - the process: `pid` and `processName` in one dictionary
 * in it, in archives (NSKeyedArchiver) in it, and in what is compressed in it; and the container
 * around the list for a log (`leaks -fullStackHistory`). The graph itself is not read.
 */
#ifndef SONDE_IMPORT_MEMGRAPH_H
#define SONDE_IMPORT_MEMGRAPH_H

#include "import/apple_table.h"
#include "import/images.h"

typedef struct memgraph {
  image_list_t images;
  apple_table_t table; /* `nodes` NULL: none */
  uint8_t *table_bytes;
  const char *table_wrong; /* a table is there, which is not readable: why */
  const uint8_t *log;      /* in the bytes that were given; NULL: none */
  uint64_t log_size;
  uint64_t pid; /* 0: not said */
  char name[256];
  uint64_t foreign; /* parts compressed as LZFSE, which no library here reads */
  uint64_t damaged; /* parts that are not what they say, or too large */
} memgraph_t;

/* Is it a property list, or a memory graph's container? */
bool memgraph_is(const uint8_t *data, uint64_t size);

/* NULL, or what is wrong with the whole. memgraph_free in either case. */
const char *memgraph_read(memgraph_t *graph, const uint8_t *data, uint64_t size);
void memgraph_free(memgraph_t *graph);

#endif
