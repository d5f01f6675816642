/* SPDX-License-Identifier: MIT
 *
 * Finds the blocks that can still be reached, by a conservative scan: a word counts as a pointer if
 * its value is the address of a block or of any byte inside one.
 *
 *   reachability_open     takes the blocks, ordered by address
 *   reachability_root     searches memory, and reachability_word a register, for pointers
 *   reachability_judge    classifies the rest as leaked: unreferenced, in a cycle, or referenced
 *                         only by leaked blocks
 *
 * One thread; memory is mapped by reachability_open only. The memory of blocks is read through a
 * function, so that a test can supply its own memory.
 */
#ifndef SONDE_SENSOR_LEAKS_REACHABILITY_H
#define SONDE_SENSOR_LEAKS_REACHABILITY_H

#include "base/bits.h"
#include "record/leaks.h"

/* Reads up to SIZE bytes from ADDRESS, in place or into BUFFER (REACHABILITY_PIECE bytes). Returns
 * where they are and their count in *GOT; NULL: none. */
#define REACHABILITY_PIECE 65536u
typedef const void *reachability_read_t(void *context, uint64_t address, uint64_t size,
                                        void *buffer, uint64_t *got);

typedef struct reachability_extent {
  uint64_t start, end; /* of a group of blocks near each other; START is page-aligned */
  uint32_t first_page; /* index of its first page in `pages` */
} reachability_extent_t;

typedef struct reachability {
  leaks_block_t *blocks;
  uint32_t count;
  reachability_read_t *read;
  void *context;
  uint64_t block_bytes; /* bytes of blocks searched */
  /* for look-up by address */
  reachability_extent_t *extents;
  uint32_t extent_count;
  /* per page of an extent: the first block that ends after the start of the page */
  uint32_t *pages;
  /* blocks that are reached but not yet searched */
  uint32_t *waiting;
  uint32_t waiting_count;
  uint8_t *buffer;
  /* called for each reference to the block `wanted`; NULL: blocks are marked */
  void (*refers)(void *context, uint64_t where, uint64_t value, leaks_holder_t holder,
                 uint32_t index);
  uint32_t wanted;
} reachability_t;

#define REACHABILITY_NONE UINT32_MAX

/* BLOCKS are ascending and do not overlap. False without memory, or if they do. */
bool reachability_open(reachability_t *graph, leaks_block_t *blocks, uint64_t count,
                       reachability_read_t *read, void *context);

/* The index of the block that contains ADDRESS, or REACHABILITY_NONE. */
uint32_t reachability_find(const reachability_t *graph, uint64_t address);

/* The word VALUE is at WHERE, in memory of kind HOLDER. Marks the block it points to, and all
 * blocks reachable from that. */
void reachability_word(reachability_t *graph, uint64_t value, uint64_t where,
                       leaks_holder_t holder);
/* The same for every aligned word from START to END. INDEX is passed to `refers`. Returns the
 * number of bytes that were readable. */
uint64_t reachability_root(reachability_t *graph, uint64_t start, uint64_t end,
                           leaks_holder_t holder, uint32_t index);
/* Marks a block that is reached without a pointer to it: a stack is in it. */
void reachability_mark(reachability_t *graph, uint32_t block, uint64_t where,
                       leaks_holder_t holder);

/* After the roots: sets verdicts and owners. */
void reachability_judge(reachability_t *graph);

/* From now on roots are searched for references to the block WANTED, which are passed to REFERS; no
 * block is marked. */
void reachability_list_referrers(reachability_t *graph, uint32_t wanted,
                                 void (*refers)(void *context, uint64_t where, uint64_t value,
                                                leaks_holder_t holder, uint32_t index));

/* Searches all blocks for references to the block `wanted`. */
void reachability_search_blocks(reachability_t *graph);

#endif
