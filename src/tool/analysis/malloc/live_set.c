/* SPDX-License-Identifier: MIT
 *
 * The set begins in 100 MB of address space, which suffices for most recordings. It moves once,
 * when this is full. Otherwise the set is renewed in place, and doubles if too few of its blocks
 * were removed ones. A new mask has one more bit, so a block's new home is its old home or that
 * plus the old size. The blocks are taken out and inserted again one after another, beginning after
 * an empty place. So an insertion never passes a block that has yet to move, and no search path
 * gets a hole.
 */
#define _GNU_SOURCE
#include "analysis/malloc/live_set.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define FIRST_PLACES (1u << 16)
#define SMALL_PLACES (1u << 22)
#define MOST_PLACES  (UINT64_C(1) << 33)
/* Most tables never need more than the first. */
#define FIRST_SHARE   32
#define LARGE_SHARE   4
#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* How much address space the table may reserve: 1/SHARE of a limit (ulimit -v, -d). The rest of the
 * command needs most of it. */
static uint64_t reserve_limit(unsigned share) {
  struct rlimit all, data;
  if (getrlimit(RLIMIT_AS, &all) != 0 || getrlimit(RLIMIT_DATA, &data) != 0) return UINT64_MAX;
  return (all.rlim_cur < data.rlim_cur ? all.rlim_cur : data.rlim_cur) / share;
}

/* Reserves address space for LEAST to LARGEST places, as many as possible. Large pages, because
 * places are accessed at random. */
static bool reserve(live_set_t *live, uint64_t least, uint64_t largest, unsigned share) {
  uint64_t limit = reserve_limit(share);
  for (uint64_t most = largest; most >= least; most /= 2) {
    size_t bytes = (size_t)most * sizeof(live_block_t);
    if (bytes > limit && most > FIRST_PLACES) continue;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, RESERVE_FLAGS, -1, 0);
    if (map == MAP_FAILED) continue;
#ifdef MADV_HUGEPAGE
    (void)madvise(map, bytes, MADV_HUGEPAGE);
#endif
    live->places = map;
    live->most = (size_t)most;
    return true;
  }
  return false;
}

bool live_set_init(live_set_t *live) {
  *live = (live_set_t){.mask = FIRST_PLACES - 1};
  return reserve(live, FIRST_PLACES, SMALL_PLACES, FIRST_SHARE);
}

void live_set_free(live_set_t *live) {
  if (live->places) munmap(live->places, live->most * sizeof *live->places);
  live->places = NULL;
}

static live_block_t *insert(const live_set_t *live, const live_block_t *block) {
  size_t i = live_set_home(live, block->address);
  while (live->places[i].address)
    i = (i + 1) & live->mask;
  live->places[i] = *block;
  return &live->places[i];
}

static void drop(live_set_t *live, const live_block_t *place) {
  if (!place->address) return;
  live->removed--;
  if (live->on_drop) live->on_drop(live->on_drop_context, place->address);
}

/* Moves all live blocks to a table with twice the places and much address space. */
static bool move_to_large(live_set_t *live) {
  live_set_t small = *live;
  if (!reserve(live, 2 * (uint64_t)small.most, MOST_PLACES, LARGE_SHARE)) return false;
  live->mask = 2 * small.mask + 1;
  for (size_t i = 0; i <= small.mask; i++)
    if (live_set_is_live(&small.places[i]))
      insert(live, &small.places[i]);
    else
      drop(live, &small.places[i]);
  live_set_free(&small);
  return true;
}

/* Drops the removed blocks and, if MASK is larger than that of the set, doubles it. */
static void renew(live_set_t *live, size_t mask) {
  size_t old = live->mask + 1, start = 0;
  while (live->places[start].address)
    start++;
  live->mask = mask;
  for (size_t n = 1; n < old; n++) {
    live_block_t *place = &live->places[(start + n) & (old - 1)];
    if (!place->address) continue;
    live_block_t block = *place;
    place->address = 0;
    if (live_set_is_live(&block))
      insert(live, &block);
    else
      drop(live, &block);
  }
}

void live_set_drop_removed(live_set_t *live) {
  if (live->removed) renew(live, live->mask);
}

/* Makes room. A renewal drops an eighth of the places at least, or a 64th where no larger table
 * fits, so that it is rare. */
static bool make_room(live_set_t *live) {
  size_t places = live->mask + 1;
  if (8 * live->removed < places) {
    if (2 * places <= live->most) {
      renew(live, 2 * places - 1);
      return true;
    }
    if (move_to_large(live)) return true;
  }
  if (64 * live->removed < places) return false;
  live_set_drop_removed(live);
  return true;
}

live_block_t *live_set_new_place(live_set_t *live, uint64_t address) {
  if (8 * (live->count + live->removed + 1) > 5 * (live->mask + 1) && !make_room(live)) return NULL;
  live->removed++;
  const live_block_t removed = {.address = address, .stream = LIVE_REMOVED};
  return insert(live, &removed);
}

void live_set_clear(live_set_t *live) {
  for (size_t i = 0; live->count + live->removed && i <= live->mask; i++)
    live->places[i].address = 0;
  live->count = live->removed = 0;
}

live_block_t *live_set_next(const live_set_t *live, size_t *at) {
  while (live->places && *at <= live->mask) {
    live_block_t *place = &live->places[(*at)++];
    if (live_set_is_live(place)) return place;
  }
  return NULL;
}
