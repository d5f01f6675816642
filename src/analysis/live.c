/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "analysis/live.h"

#include <sys/mman.h>

#define HUGE_FROM_BYTES (4u << 20)

#define GRANULE_BITS 4 /* what allocators align to */
#define REGION_BITS                                                                                \
  8 /* blocks of one region have neighbouring places: a program works on                           \
        neighbouring blocks at a time, and so do the caches of the replay */

static size_t home_of(const live_t *live, uint64_t address) {
  uint64_t region = (address >> REGION_BITS) * UINT64_C(0x9e3779b97f4a7c15);
  uint64_t within = address >> GRANULE_BITS & ((1u << (REGION_BITS - GRANULE_BITS)) - 1);
  return (size_t)((region >> 24) + within) & live->mask;
}

/* Zeroed memory for COUNT places; large tables on huge pages, for they are reached at random. */
static live_block_t *new_places(size_t count) {
  size_t bytes = count * sizeof(live_block_t);
  void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  if (bytes >= HUGE_FROM_BYTES) (void)madvise(map, bytes, MADV_HUGEPAGE);
  return map;
}

static void free_places(const live_t *live) {
  if (live->places) munmap(live->places, (live->mask + 1) * sizeof *live->places);
}

bool live_init(live_t *live) {
  live->mask = (1u << 16) - 1;
  live->count = 0;
  live->places = new_places(live->mask + 1);
  return live->places != NULL;
}

void live_free(live_t *live) {
  free_places(live);
  live->places = NULL;
}

live_block_t *live_find(const live_t *live, uint64_t address) {
  for (size_t i = home_of(live, address);; i = (i + 1) & live->mask) {
    if (live->places[i].address == address) return &live->places[i];
    if (!live->places[i].address) return NULL;
  }
}

static void put(live_t *live, const live_block_t *block) {
  size_t i = home_of(live, block->address);
  while (live->places[i].address)
    i = (i + 1) & live->mask;
  live->places[i] = *block;
}

static bool grow(live_t *live) {
  live_t bigger = {.mask = 2 * live->mask + 1, .count = live->count};
  bigger.places = new_places(bigger.mask + 1);
  if (!bigger.places) return false;
  for (size_t i = 0; i <= live->mask; i++)
    if (live->places[i].address) put(&bigger, &live->places[i]);
  free_places(live);
  *live = bigger;
  return true;
}

bool live_add(live_t *live, const live_block_t *block) {
  if (8 * (live->count + 1) > 5 * (live->mask + 1) && !grow(live)) return false;
  put(live, block);
  live->count++;
  return true;
}

void live_remove(live_t *live, live_block_t *block) {
  size_t hole = (size_t)(block - live->places);
  for (size_t i = (hole + 1) & live->mask; live->places[i].address; i = (i + 1) & live->mask) {
    size_t home = home_of(live, live->places[i].address);
    /* What may move back to the hole: its home does not lie behind the hole on the way to it. */
    if (((i - home) & live->mask) < ((i - hole) & live->mask)) continue;
    live->places[hole] = live->places[i];
    hole = i;
  }
  live->places[hole].address = 0;
  live->count--;
}
