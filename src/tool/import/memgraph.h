/* SPDX-License-Identifier: MIT
 *
 * Memory graphs (.memgraph), as written by leaks, Xcode and ReportCrash: the parts that an import
 * uses. They are property lists. Apple does not publish their layout, so the whole list is
 * searched, with any keys, including archives (NSKeyedArchiver) and compressed data in it, for
 *   - images: text with a "Binary Images:" section, or dictionaries with an address and a path
 *   - a stack table ("MslUniquingTable")
 *   - the process: `pid` and `processName` in one dictionary
 * The container around the list is searched for a log (`leaks -fullStackHistory`). The graph itself
 * is not read.
 */
#ifndef SONDE_IMPORT_MEMGRAPH_H
#define SONDE_IMPORT_MEMGRAPH_H

#include "import/apple_table.h"
#include "import/images.h"

typedef struct memgraph {
  image_list_t images;
  apple_table_t table; /* `nodes` NULL: none */
  uint8_t *table_bytes;
  const char
      *table_wrong;   /* why the graph's table cannot be read; NULL: it can, or there is none */
  const uint8_t *log; /* in the caller's bytes; NULL: none */
  uint64_t log_size;
  uint64_t pid; /* 0: unknown */
  char name[256];
  uint64_t lzfse;   /* parts compressed as LZFSE, which is not supported */
  uint64_t damaged; /* parts that are invalid or too large */
} memgraph_t;

/* Returns whether DATA begins like a property list or a memory graph's container. */
bool memgraph_is(const uint8_t *data, uint64_t size);

/* Reads a graph. Returns NULL or an error message. Call memgraph_free in either case. */
const char *memgraph_read(memgraph_t *graph, const uint8_t *data, uint64_t size);
void memgraph_free(memgraph_t *graph);

#endif
