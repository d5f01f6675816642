/* SPDX-License-Identifier: MIT
 *
 * Named stacks: a stack that was named before is answered by its id.
 *
 * The key is a stack's id within one process or recording, which stands for the whole stack, so no
 * two stacks share an answer. Memory is bounded; what was not asked for lately goes first. An
 * answer goes with any image it names, since another image may come to the same addresses.
 *
 * Any number of threads may use one table.
 */
#ifndef SONDE_SYMBOL_NAME_TABLE_H
#define SONDE_SYMBOL_NAME_TABLE_H

#include "symbol/symbol.h"

typedef struct name_table name_table_t;

/* An answer that was found; the frames of all pcs, innermost first, until it is released. */
typedef struct table_answer {
  const symbol_frame_t *frames;
  int count;
} table_answer_t;

/* At most BYTES_MAX bytes of answers. NULL when there is no memory. */
name_table_t *name_table_new(size_t bytes_max);
void name_table_free(name_table_t *table); /* when every answer was released */

/* The answer for STACK, to be given back with name_table_release; NULL when it is not known. */
const table_answer_t *name_table_find(name_table_t *table, uint64_t stack);
void name_table_release(const table_answer_t *answer);

/* Taken before a stack is named, and given to name_table_add afterwards: if an image was dropped
 * in between, the names may be of what is no longer there, and are not kept. */
uint64_t name_table_epoch(name_table_t *table);

/* Keeps a copy of FRAMES for STACK. IMAGES are the caller's numbers of the images that the stack
 * passes through. False when it was not kept: too large, no memory, an old EPOCH. */
bool name_table_add(name_table_t *table, uint64_t epoch, uint64_t stack,
                    const symbol_frame_t *frames, int count, const uint32_t *images,
                    int image_count);

/* Forgets every stack that passes through IMAGE. */
void name_table_drop(name_table_t *table, uint32_t image);

/* Bytes held now. */
size_t name_table_bytes(name_table_t *table);

#endif
