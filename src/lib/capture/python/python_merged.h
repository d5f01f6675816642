/* SPDX-License-Identifier: MIT
 *
 * The ids of merged stacks: each is a native stack and a chain of Python frames, which are ids of
 * the stack table.
 *
 * Ids are numbers of a sequence, and the pairs are in the order of their ids: a new one is written
 * beside the last one. A cache finds the number of a pair. A slot of it has all bits of the pair
 * that its place does not imply, so a look-up reads one cache line. The cache grows with the number
 * of pairs, from 512 KB on. A pair may get several ids: where two threads add it at once, and where
 * it left the cache before the cache grew.
 *
 * The pairs stay in memory, 8 bytes each, since they are recorded again after a gap or a fork.
 * Lock-free, async-signal-safe and shared by all threads.
 */
#ifndef SONDE_CAPTURE_PYTHON_MERGED_H
#define SONDE_CAPTURE_PYTHON_MERGED_H

#include "base/bits.h"

/* Ids of merged stacks begin here, above those of the stack table. */
#define MERGED_FIRST UINT32_C(0x5000000)

/* Called with a new id before any capture can return it. NULL: not called. */
extern HIDDEN void (*python_merged_on_new)(uint32_t id, uint32_t native, uint32_t chain);

/* False: out of memory. */
bool python_merged_start(void);

/* An id of both stacks; 0: none is known. */
uint32_t python_merged_find(uint32_t native, uint32_t chain);

/* A new id of both stacks; 0: there are too many, or memory is exhausted. */
uint32_t python_merged_add(uint32_t native, uint32_t chain);

/* Calls VISIT with each id. */
void python_merged_each(void (*visit)(uint32_t id, uint32_t native, uint32_t chain));

/* The parts of ID. False: there is no such id. */
bool python_merged_get(uint32_t id, uint32_t *native, uint32_t *chain);

#endif
