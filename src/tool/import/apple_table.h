/* SPDX-License-Identifier: MIT
 *
 * The serialized stack table of Apple's malloc stack logs ("MslUniquingTable"), as written by
 * libmalloc 116 to 166: 16 characters, a control structure of 68 bytes, zeros up to offset 16384,
 * then nodes of 16 bytes. A stack id is the number of its innermost node. A node contains a pc and
 * the number of its parent, the caller's frame. The format of later systems is not published; other
 * headers are rejected.
 */
#ifndef SONDE_IMPORT_APPLE_TABLE_H
#define SONDE_IMPORT_APPLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct apple_table {
  const uint8_t *nodes;
  uint64_t count;   /* nodes in the file */
  uint64_t missing; /* nodes beyond the end of a truncated file */
  bool is_lite;     /* from a mode that logs only live blocks: stacks have no thread */
} apple_table_t;

#define APPLE_NO_PARENT UINT64_MAX

/* Returns whether DATA begins like a stack table. */
bool apple_table_is(const uint8_t *data, uint64_t size);

/* Reads the header. Returns NULL or an error message. */
const char *apple_table_read(apple_table_t *table, const uint8_t *data, uint64_t size);

/* Reads node I, below table->count. False when it is empty. *PARENT is APPLE_NO_PARENT for an
 * outermost node. */
bool apple_table_node(const apple_table_t *table, uint64_t i, uint64_t *pc, uint64_t *parent);

/* ---- regions -------------------------------------------------------------------------------- */

/* Returns whether DATA begins like the tree of live VM regions of the modes lite and vmlite
 * ("radixv2"). */
bool apple_regions_are(const uint8_t *data, uint64_t size);

/* Calls VISIT with each region, ascending, until it returns false. Returns the number of damaged
 * nodes: out of range, reached twice, or too deep. -1 when VISIT returned false or memory runs out.
 */
long apple_regions_each(const uint8_t *data, uint64_t size,
                        bool (*visit)(uint64_t address, uint64_t bytes, uint32_t stack,
                                      void *context),
                        void *context);

#endif
