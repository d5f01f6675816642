/* SPDX-License-Identifier: MIT
 *
 * The blocks that are live at one moment of a replay: a hash table by address, linear probing,
 * deletion by moving back what follows. 24 bytes a place, at most 5/8 full: 38 to 77 bytes a block.
 *
 * It grows in place, in address space that was reserved at the start, so there is never a second
 * table beside it. Places are reached at random, so that a large table costs a cache miss an event;
 * live_set_prefetch starts it early.
 */
#ifndef SONDE_ANALYSIS_MALLOC_LIVE_SET_H
#define SONDE_ANALYSIS_MALLOC_LIVE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

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

typedef struct live_set {
  live_block_t *places;
  size_t mask, count;
  size_t most; /* places that the reserved address space has room for */
} live_set_t;

bool live_set_init(live_set_t *live);
void live_set_free(live_set_t *live);

#define LIVE_GRANULE_BITS 4 /* what allocators align to */
#define LIVE_REGION_BITS                                                                           \
  6 /* blocks of one region have neighbouring places: a program works on neighbouring blocks at a  \
       time, and so do the caches of the replay */

/* Where the search for ADDRESS begins. */
static inline size_t live_set_home(const live_set_t *live, uint64_t address) {
  uint64_t region = (address >> LIVE_REGION_BITS) * UINT64_C(0x9e3779b97f4a7c15);
  uint64_t within =
      address >> LIVE_GRANULE_BITS & ((1u << (LIVE_REGION_BITS - LIVE_GRANULE_BITS)) - 1);
  return (size_t)((region >> 24) + within) & live->mask;
}

/* Soon ADDRESS will be asked for, and its neighbours: a search or a removal ends at the next empty
 * place, most often in the second cache line. (gcc 12 takes a function that only prefetches for one
 * without effect, and drops calls of it that were not inlined early.) */
static ALWAYS_INLINE void live_set_prefetch(const live_set_t *live, uint64_t address) {
  const char *place = (const char *)&live->places[live_set_home(live, address)];
  __builtin_prefetch(place, 1);
  __builtin_prefetch(place + 64, 1);
}

/* The block at ADDRESS, or NULL. */
static inline live_block_t *live_set_find(const live_set_t *live, uint64_t address) {
  for (size_t i = live_set_home(live, address);; i = (i + 1) & live->mask) {
    if (live->places[i].address == address) return &live->places[i];
    if (!live->places[i].address) return NULL;
  }
}

/* Enters BLOCK, whose address is not live. False without memory. */
bool live_set_add(live_set_t *live, const live_block_t *block);

/* Removes BLOCK, which live_set_find gave; other blocks may move. */
void live_set_remove(live_set_t *live, live_block_t *block);

#endif
