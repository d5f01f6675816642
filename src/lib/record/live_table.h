/* SPDX-License-Identifier: MIT
 *
 * The table of live blocks: memory that the recorder made (a sealed memfd) and the program fills
 * while it is recorded in mode `live`. It outlives the program, so what was live when it was killed
 * is known; the recorder reads it whenever it likes, with no help of the program's.
 *
 * Layout: levels, one after the other in the memfd, each twice as large as the one before; how many
 * are in use stands in the control block (`live_levels`). A level is an array of buckets of eight
 * places. A block has several buckets in every level: one that it shares with its neighbours in
 * memory, so that a program that works on neighbouring blocks works on neighbouring places, and
 * three of its own, for when that is full. It stands in one of them and never moves.
 *
 * A place is taken by a compare-and-swap of its address from 0 to the address with LIVE_RESERVED;
 * the rest is written, then the address without that bit. It is given back by a store of 0. So a
 * reader accepts a place whose address is the same before and after it has read the rest; one that
 * is being put belongs to a call that has not returned. No locks: a signal handler may come at any
 * instruction, and a kill as well.
 */
#ifndef SONDE_RECORD_LIVE_TABLE_H
#define SONDE_RECORD_LIVE_TABLE_H

#include <stdint.h>

#define LIVE_BUCKET   8u
#define LIVE_BITS     12u /* log2 of the buckets of level 0 */
#define LIVE_LEVELS   14u
#define LIVE_CHOICES  4u     /* buckets that a block may have in a level */
#define LIVE_SKEW     40528u /* buckets: 2533 pages of them, 229 of the 256 that level 0 has */
#define LIVE_RESERVED (UINT64_C(1) << 63)

typedef struct live_detail {
  uint64_t size, time; /* bytes; shifted ticks */
  uint32_t stack, stream;
} live_detail_t;

typedef struct live_bucket {
  uint64_t address[LIVE_BUCKET]; /* 0: a free place */
  live_detail_t detail[LIVE_BUCKET];
} live_bucket_t;

_Static_assert(sizeof(live_bucket_t) == 256, "four cache lines, the addresses in the first");

static inline uint64_t live_level_bytes(uint32_t level) {
  return sizeof(live_bucket_t) << (LIVE_BITS + level);
}

/* Where LEVEL begins in the memfd; with LIVE_LEVELS its size. */
static inline uint64_t live_level_offset(uint32_t level) {
  return ((UINT64_C(1) << level) - 1) * (sizeof(live_bucket_t) << LIVE_BITS);
}

/* The number of the block's bucket in LEVEL; CHOICE is below LIVE_CHOICES. The first: every 256
 * bytes of the program's have one, in the same order, so that a heap fills a level from one end and
 * no two pages of it share buckets before it has gone round. Heaps of other threads begin at
 * multiples of 64 MB and would all begin at one place, so each 64 MB is put a little further on. */
static inline uint64_t live_bucket_index(uint64_t address, uint32_t level, unsigned choice) {
  uint32_t bits = LIVE_BITS + level;
  if (choice)
    return (address >> 4) * (UINT64_C(0xd1342543de82ef95) * (2 * choice - 1)) >> (64 - bits);
  return ((address >> 8) + (address >> 26) * LIVE_SKEW) & ((UINT64_C(1) << bits) - 1);
}

#endif
