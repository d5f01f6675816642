/* SPDX-License-Identifier: MIT
 *
 * The memory graph: which blocks can still be reached, by a conservative scan. A word is taken for
 * a pointer when its value lies in a block, at its start or anywhere inside.
 *
 *   reachability_open     of blocks, ordered by address
 *   reachability_root     for each piece of memory, and reachability_word for each register, that
 * holds pointers reachability_judge    what was not reached is lost: by itself, in a cycle, or held
 * by what is lost
 *
 * One thread; no memory is had but at the opening. The blocks' own memory is read through a
 * function that is told where, so that a test can hand in memory of its own.
 */
#ifndef SONDE_SENSOR_LEAKS_REACHABILITY_H
#define SONDE_SENSOR_LEAKS_REACHABILITY_H

#include "base/bits.h"
#include "record/leaks.h"

/* Up to SIZE bytes from ADDRESS, either in place or in BUFFER, which has room for
 * REACHABILITY_PIECE: how many there are in *GOT; NULL when there are none. */
#define REACHABILITY_PIECE 65536u
typedef const void *reachability_read_t(void *context, uint64_t address, uint64_t size,
                                        void *buffer, uint64_t *got);

typedef struct reachability_extent {
  uint64_t start, end; /* of blocks that lie near each other; start at a page's beginning */
  uint32_t first_page; /* index of its first page in `pages` */
} reachability_extent_t;

typedef struct reachability {
  leaks_block_t *blocks;
  uint32_t count;
  reachability_read_t *read;
  void *context;
  uint64_t block_bytes; /* searched */
  /* for the search by address */
  reachability_extent_t *extents;
  uint32_t extent_count;
  uint32_t *pages; /* for each page of an extent the first block that ends behind its start */
  /* for the marking */
  uint32_t *waiting;
  uint32_t waiting_count;
  uint8_t *buffer;
  /* who asks for the referrers of one block */
  void (*refers)(void *context, uint64_t where, uint64_t value, leaks_holder_t holder,
                 uint32_t index);
  uint32_t wanted; /* index of that block */
  void *memory;
  uint64_t memory_size;
} reachability_t;

#define REACHABILITY_NONE UINT32_MAX

/* BLOCKS, COUNT of them, ascending and apart from each other. False without memory, or when they
 * are in disorder. */
bool reachability_open(reachability_t *graph, leaks_block_t *blocks, uint64_t count,
                       reachability_read_t *read, void *context);
void reachability_close(reachability_t *graph);

/* The block that holds ADDRESS, as an index, or REACHABILITY_NONE. */
uint32_t reachability_find(const reachability_t *graph, uint64_t address);

/* VALUE stands at WHERE, as HOLDER; what it points to is reached, and all that this leads to. */
void reachability_word(reachability_t *graph, uint64_t value, uint64_t where,
                       leaks_holder_t holder);
/* The same of every aligned word from START to END; INDEX is told on to `refers`. Returns the bytes
 * that could be read. */
uint64_t reachability_root(reachability_t *graph, uint64_t start, uint64_t end,
                           leaks_holder_t holder, uint32_t index);
/* A block that is held whatever points to it: a stack runs in it. */
void reachability_mark(reachability_t *graph, uint32_t block, uint64_t where,
                       leaks_holder_t holder);

/* After the roots. Verdicts and owners are set. */
void reachability_judge(reachability_t *graph);

/* From now on words that point into the block WANTED are told to REFERS, and nothing is marked. */
void reachability_list_referrers(reachability_t *graph, uint32_t wanted,
                                 void (*refers)(void *context, uint64_t where, uint64_t value,
                                                leaks_holder_t holder, uint32_t index));
void reachability_search_blocks(reachability_t *graph);

#endif
