/* SPDX-License-Identifier: MIT
 *
 * The blocks that are live at one point of a replay: a hash table by address with linear probing.
 *
 * A removed block keeps its place, because allocators give most addresses out again. So the next
 * allocation at its address finds this place, and neither a removal nor most additions search for
 * an empty one. Their loops end after an unpredictable number of steps, and each costs a
 * mispredicted branch. Removed blocks are dropped when 5/8 of all places are used. The table
 * doubles then if less than an eighth of the places were removed ones. A place takes 24 bytes: 38
 * to 96 bytes for each block that was live at once, unless the table is small.
 *
 * The table grows in place, in reserved address space, so that no second table exists beside it; a
 * table of more than 100 MB has moved once. Places are accessed at random, so each event of a large
 * table costs a cache miss; live_set_prefetch starts that load early. A table of base/hash.h would
 * cost a second miss, for the item, and cannot remove items.
 *
 * One thread uses a set.
 */
#ifndef SONDE_ANALYSIS_MALLOC_LIVE_SET_H
#define SONDE_ANALYSIS_MALLOC_LIVE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"

#define WEIGHT_ONE 256u

/* Larger than any block in the address space of today's processors. */
#define LIVE_SIZE_MAX    ((UINT64_C(1) << 47) - 1)
#define LIVE_STREAM_MASK ((1u << 17) - 1)
#define LIVE_STREAM_MAX  (LIVE_STREAM_MASK - 1)
#define LIVE_REMOVED     LIVE_STREAM_MASK

typedef struct live_block {
  uint64_t address; /* 0: an empty place */
  uint64_t size : 47;
  /* The stream that allocated the block. LIVE_STREAM_MAX: stream LIVE_STREAM_MAX or a later one.
   * LIVE_REMOVED: the block was removed. */
  uint64_t stream : 17;
  uint32_t stack;  /* index of its stack's totals */
  uint32_t weight; /* blocks that it represents, in 1/WEIGHT_ONE */
} live_block_t;

typedef struct live_set {
  live_block_t *places;
  size_t mask, count; /* of live blocks */
  size_t removed;     /* places of removed blocks */
  size_t most;        /* places that fit in the reserved address space */
  /* Called with the address of each removed block whose place is given up. May be NULL. */
  void (*on_drop)(void *context, uint64_t address);
  void *on_drop_context;
} live_set_t;

/* False when no address space can be reserved. Release with live_set_free. */
bool live_set_init(live_set_t *live);
void live_set_free(live_set_t *live);

/* The alignment of allocators. */
#define LIVE_GRANULE_BITS 4

/* Blocks within 64 bytes have neighboring places. A program uses neighboring blocks at the same
 * time, so the replay finds their places in its caches. */
#define LIVE_NEIGHBOR_BITS 6

/* Where the search for ADDRESS begins. */
static inline size_t live_set_home(const live_set_t *live, uint64_t address) {
  uint64_t group = (address >> LIVE_NEIGHBOR_BITS) * UINT64_C(0x9e3779b97f4a7c15);
  uint64_t within =
      address >> LIVE_GRANULE_BITS & ((1u << (LIVE_NEIGHBOR_BITS - LIVE_GRANULE_BITS)) - 1);
  return (size_t)((group >> 24) + within) & live->mask;
}

/* Loads the places that a search for ADDRESS will read. Most searches end in the first cache line
 * or at the start of the next one. Always inline: gcc 12 treats a function that only prefetches as
 * one without effect, and drops calls that it did not inline early. */
static ALWAYS_INLINE void live_set_prefetch(const live_set_t *live, uint64_t address) {
  const char *place = (const char *)&live->places[live_set_home(live, address)];
  __builtin_prefetch(place, 1);
  __builtin_prefetch(place + 64, 1);
}

static inline bool live_set_is_live(const live_block_t *place) {
  return place->address && place->stream != LIVE_REMOVED;
}

/* The place of ADDRESS: a live or removed block, or NULL. */
static inline live_block_t *live_set_place(const live_set_t *live, uint64_t address) {
  for (size_t i = live_set_home(live, address);; i = (i + 1) & live->mask) {
    if (live->places[i].address == address) return &live->places[i];
    if (!live->places[i].address) return NULL;
  }
}

/* The live block at ADDRESS, or NULL. */
static inline live_block_t *live_set_find(const live_set_t *live, uint64_t address) {
  live_block_t *place = live_set_place(live, address);
  return place && place->stream != LIVE_REMOVED ? place : NULL;
}

/* A place for a block at ADDRESS, which has none; NULL when memory runs out. For
 * live_set_add_at, which makes it live. */
live_block_t *live_set_new_place(live_set_t *live, uint64_t address);

/* Adds BLOCK, which is not live. PLACE is the result of live_set_place. Returns its place, valid
 * until the next addition; NULL when memory runs out. */
static inline live_block_t *live_set_add_at(live_set_t *live, live_block_t *place,
                                            live_block_t block) {
  if (__builtin_expect(!place, 0)) {
    place = live_set_new_place(live, block.address);
    if (!place) return NULL;
  }
  *place = block;
  live->count++;
  live->removed--;
  return place;
}

static inline bool live_set_add(live_set_t *live, const live_block_t *block) {
  return live_set_add_at(live, live_set_place(live, block->address), *block);
}

/* Removes BLOCK, a result of live_set_find. Its place stays. */
static inline void live_set_remove(live_set_t *live, live_block_t *block) {
  block->stream = LIVE_REMOVED;
  live->count--;
  live->removed++;
}

/* Gives up the places of removed blocks. */
void live_set_drop_removed(live_set_t *live);

/* Removes all blocks and gives up their places. */
void live_set_clear(live_set_t *live);

/* The next live block, from place *AT on; NULL after the last one. Set *AT to 0 first. */
live_block_t *live_set_next(const live_set_t *live, size_t *at);

#endif
