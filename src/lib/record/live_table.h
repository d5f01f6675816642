/* SPDX-License-Identifier: MIT
 *
 * The table of live blocks: a sealed memfd that the recorder created and the program fills in mode
 * `live`. It outlives the program, so the blocks that were live when it was killed are known. The
 * recorder reads it at any time without the program's help.
 *
 * Layout: levels, one after the other in the memfd, each twice as large as the previous one;
 * `live_levels` of the control page is their number. A level is an array of buckets of eight
 * entries. A block has several possible buckets in every level: one that it shares with its
 * neighbors in memory, so that work on neighboring blocks touches neighboring entries, and three
 * others for when that one is full. A block stays in its entry.
 *
 * A compare-and-swap of the address, from 0 to the block's address with LIVE_RESERVED, allocates an
 * entry. Then the other fields are written, and then the address without that bit. A store of 0
 * frees the entry. So a reader accepts an entry if its address is the same before and after the
 * reader has read the other fields. A reserved entry belongs to a call that has not returned. There
 * are no locks: a signal handler or a kill may come at any instruction.
 */
#ifndef SONDE_RECORD_LIVE_TABLE_H
#define SONDE_RECORD_LIVE_TABLE_H

#include <stdint.h>

#define LIVE_BUCKET  8u
#define LIVE_BITS    12u /* log2 of the buckets of level 0 */
#define LIVE_LEVELS  14u
#define LIVE_CHOICES 4u /* possible buckets of a block in a level */
/* In buckets: 2533 pages of them, which is 229 modulo the 256 pages of level 0. */
#define LIVE_SKEW     40528u
#define LIVE_RESERVED (UINT64_C(1) << 63)

typedef struct live_detail {
  uint64_t size, time; /* bytes; shifted ticks */
  uint32_t stack, stream;
} live_detail_t;

typedef struct live_bucket {
  uint64_t address[LIVE_BUCKET]; /* 0: a free entry */
  live_detail_t detail[LIVE_BUCKET];
} live_bucket_t;

_Static_assert(sizeof(live_bucket_t) == 256, "four cache lines, the addresses in the first");

static inline uint64_t live_level_bytes(uint32_t level) {
  return sizeof(live_bucket_t) << (LIVE_BITS + level);
}

/* The offset of LEVEL in the memfd; for LIVE_LEVELS, the size of the memfd. */
static inline uint64_t live_level_offset(uint32_t level) {
  return ((UINT64_C(1) << level) - 1) * (sizeof(live_bucket_t) << LIVE_BITS);
}

/* The index of the block's bucket in LEVEL; CHOICE is below LIVE_CHOICES. The first choice maps
 * every 256 bytes of the program's memory to one bucket, in order. So a heap fills a level from one
 * end, and two of its pages share buckets only after it has wrapped around. Heaps of other threads
 * start at multiples of 64 MB and would all start at one bucket; so each 64 MB is shifted a little.
 */
static inline uint64_t live_bucket_index(uint64_t address, uint32_t level, unsigned choice) {
  uint32_t bits = LIVE_BITS + level;
  if (choice)
    return (address >> 4) * (UINT64_C(0xd1342543de82ef95) * (2 * choice - 1)) >> (64 - bits);
  return ((address >> 8) + (address >> 26) * LIVE_SKEW) & ((UINT64_C(1) << bits) - 1);
}

#endif
