/* SPDX-License-Identifier: MIT
 *
 * The blocks that are live at one moment of a replay: a hash table by address, linear probing,
 * deletion by moving back what follows. 24 bytes a place, at most 5/8 full: 38 to 77 bytes a block.
 */
#ifndef SONDE_ANALYSIS_LIVE_H
#define SONDE_ANALYSIS_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIGHT_ONE 256u

/* No address space of today's processors has room for a block that does not fit. */
#define LIVE_SIZE_MAX   ((UINT64_C(1) << 47) - 1)
#define LIVE_STREAM_MAX ((1u << 17) - 1)

typedef struct live_block {
  uint64_t address; /* 0: an empty place */
  uint64_t size : 47;
  uint64_t stream : 17; /* that allocated it; LIVE_STREAM_MAX: that or a later one */
  uint32_t stack;       /* index of its stack's totals */
  uint32_t weight;      /* blocks it stands for, in 1/WEIGHT_ONE */
} live_block_t;

typedef struct live {
  live_block_t *places;
  size_t mask, count;
} live_t;

bool live_init(live_t *live);
void live_free(live_t *live);

/* The block at ADDRESS, or NULL. */
live_block_t *live_find(const live_t *live, uint64_t address);

/* Enters BLOCK, whose address is not live. False without memory. */
bool live_add(live_t *live, const live_block_t *block);

/* Removes BLOCK, which live_find gave; other blocks may move. */
void live_remove(live_t *live, live_block_t *block);

#endif
