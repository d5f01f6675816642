/* SPDX-License-Identifier: MIT */
#include "analysis/live.h"

#include <stdlib.h>

static size_t home_of(const live_t *live, uint64_t address) {
  return (size_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & live->mask;
}

bool live_init(live_t *live) {
  live->mask = (1u << 16) - 1;
  live->count = 0;
  live->places = calloc(live->mask + 1, sizeof *live->places);
  return live->places != NULL;
}

void live_free(live_t *live) { free(live->places); }

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
  bigger.places = calloc(bigger.mask + 1, sizeof *bigger.places);
  if (!bigger.places) return false;
  for (size_t i = 0; i <= live->mask; i++)
    if (live->places[i].address) put(&bigger, &live->places[i]);
  free(live->places);
  *live = bigger;
  return true;
}

bool live_add(live_t *live, const live_block_t *block) {
  if (4 * (live->count + 1) > 3 * (live->mask + 1) && !grow(live)) return false;
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
