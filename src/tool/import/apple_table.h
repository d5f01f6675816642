/* SPDX-License-Identifier: MIT
 *
 * The serialised stack table of Apple's malloc stack logs ("MslUniquingTable"), as libmalloc 116 to
 * 166 wrote it: 16 characters, a control structure of 68 bytes, zeros up to offset 16384, then
 * nodes of 16 bytes. A stack id is the number of its innermost node; a node is a pc and the number
 * of its parent, the next frame out. What later systems write is not published: another header is
 * refused.
 */
#ifndef SONDE_IMPORT_APPLE_TABLE_H
#define SONDE_IMPORT_APPLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct apple_table {
  const uint8_t *nodes;
  uint64_t count;   /* nodes that are there */
  uint64_t missing; /* nodes that the file should have, and has not */
  bool is_lite;     /* of the modes that keep live blocks only: no thread in a stack */
} apple_table_t;

#define APPLE_NO_PARENT UINT64_MAX

/* Does the file begin as such a table? */
bool apple_table_is(const uint8_t *data, uint64_t size);

/* Reads the header. NULL, or what is wrong. */
const char *apple_table_read(apple_table_t *table, const uint8_t *data, uint64_t size);

/* Node I, below table->count. False when it is empty. PARENT: APPLE_NO_PARENT for an outermost one.
 */
bool apple_table_node(const apple_table_t *table, uint64_t i, uint64_t *pc, uint64_t *parent);

/* ---- regions -------------------------------------------------------------------------------- */

/* The tree of live VM regions that the modes lite and vmlite keep ("radixv2"). */
bool apple_regions_are(const uint8_t *data, uint64_t size);

/* Calls VISIT with each region, ascending, until it returns false. Returns how many nodes were
 * damaged: out of range, met twice, or too deep. -1: VISIT returned false, or no memory. */
long apple_regions_each(const uint8_t *data, uint64_t size,
                        bool (*visit)(uint64_t address, uint64_t bytes, uint32_t stack,
                                      void *context),
                        void *context);

#endif
