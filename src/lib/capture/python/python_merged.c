/* SPDX-License-Identifier: MIT */
#include "capture/python/python_merged.h"

#include "capture/leveled_table.h"
#include "capture/stack_table.h"
#include "os/os.h"

#define PART_BITS  16
#define PARTS_MAX  512u
#define PART_PAIRS (1u << PART_BITS)
/* Numbers have 25 bits, and the last one is not used. Many threads may add a pair at once. */
#define PAIRS_MAX ((PARTS_MAX << PART_BITS) - 4096)

/* A pair of ids of 27 bits, multiplied by an odd number modulo 2^54: that loses nothing. */
#define ID_BITS   27
#define PAIR_BITS (2 * ID_BITS)
_Static_assert(STACK_TABLE_BITS + (LEVELED_MAX - 1) * LEVELED_GROWTH + 1 <= ID_BITS,
               "an id of the stack table does not fit");

/* A slot: the bits of a pair below those of its place, whether the place is the second one of the
 * pair, and the number of the pair + 1. 0: free. */
#define NUMBER_BITS 25
#define NUMBER_MASK ((UINT64_C(1) << NUMBER_BITS) - 1)
#define IS_SECOND   (UINT64_C(1) << NUMBER_BITS)
#define REST_SHIFT  (NUMBER_BITS + 1)

#define FIRST_BITS 16
#define GROWTH     2
#define CACHES     5u
_Static_assert(PAIR_BITS - FIRST_BITS + REST_SHIFT <= 64, "a slot has too few bits");

HIDDEN void (*python_merged_on_new)(uint32_t id, uint32_t native, uint32_t chain);

/* Pairs of native << 32 | chain by number, 0: not stored yet. */
static uint64_t *parts[PARTS_MAX];
static uint32_t pair_count;

/* The caches, each four times as large as the one before; the last one is used. A cache grows when
 * half of its slots could be in use. Then it has lost a tenth of the pairs, which get second ids.
 */
static uint64_t *caches[CACHES];
static uint32_t cache_last;
static uint32_t is_growing;

bool python_merged_start(void) {
  return leveled_map((void **)&caches[0], FIRST_BITS, sizeof(uint64_t)) != NULL;
}

/* The two places of a pair, in one cache line, and what the slots have of it. */
typedef struct place {
  uint64_t *first, *second, rest;
} place_t;

static ALWAYS_INLINE place_t place_of(uint32_t cache, uint64_t *slots, uint64_t pair) {
  uint64_t key = (pair >> 32 << ID_BITS | (uint32_t)pair) * UINT64_C(0x9e3779b97f4a7c15);
  unsigned rest_bits = PAIR_BITS - FIRST_BITS - GROWTH * cache;
  uint64_t mixed = key & ((UINT64_C(1) << PAIR_BITS) - 1), index = mixed >> rest_bits;
  return (place_t){&slots[index], &slots[index ^ 1],
                   (mixed & ((UINT64_C(1) << rest_bits) - 1)) << REST_SHIFT};
}

/* The pair that was there moves to its other place. */
static void put(const place_t *place, uint32_t number) {
  uint64_t before = load_relaxed(place->first);
  if (before) store_relaxed(place->second, before ^ IS_SECOND);
  store_release(place->first, place->rest | (number + 1));
}

static ALWAYS_INLINE uint64_t pair_of(uint32_t number) {
  const uint64_t *part = load_acquire(&parts[number >> PART_BITS]);
  return part ? load_acquire(&part[number % PART_PAIRS]) : 0;
}

static void fill(uint32_t cache, uint64_t *slots, uint32_t count) {
  enum { AHEAD = 16 };
  for (uint32_t number = 0; number < count + AHEAD; number++) {
    uint64_t ahead = number < count ? pair_of(number) : 0,
             pair = number < AHEAD ? 0 : pair_of(number - AHEAD);
    if (ahead) __builtin_prefetch(place_of(cache, slots, ahead).first, 1);
    if (!pair) continue;
    place_t place = place_of(cache, slots, pair);
    put(&place, number - AHEAD);
  }
}

/* Pairs that other threads add meanwhile are missing from the new cache. If a handler jumps out of
 * here, the cache grows no more. */
static NOINLINE void grow(uint32_t cache) {
  uint32_t none = 0;
  if (cache + 1 == CACHES || !cas_acq_rel(&is_growing, &none, 1u)) return;
  uint64_t *larger = load_relaxed(&cache_last) == cache
                         ? os_map(sizeof(uint64_t) << (FIRST_BITS + GROWTH * (cache + 1)))
                         : NULL;
  if (larger) {
    fill(cache + 1, larger, load_relaxed(&pair_count));
    store_release(&caches[cache + 1], larger);
    store_release(&cache_last, cache + 1);
  }
  store_release(&is_growing, 0u);
}

uint32_t python_merged_find(uint32_t native, uint32_t chain) {
  uint32_t cache = load_acquire(&cache_last);
  place_t place = place_of(cache, load_relaxed(&caches[cache]), (uint64_t)native << 32 | chain);
  uint64_t slot = load_acquire(place.first);
  if ((slot & ~NUMBER_MASK) != place.rest || !slot) {
    slot = load_acquire(place.second);
    if ((slot & ~NUMBER_MASK) != (place.rest | IS_SECOND)) return 0;
  }
  return MERGED_FIRST + (uint32_t)(slot & NUMBER_MASK) - 1;
}

uint32_t python_merged_add(uint32_t native, uint32_t chain) {
  uint64_t pair = (uint64_t)native << 32 | chain;
  if (load_relaxed(&pair_count) >= PAIRS_MAX - 4096) return 0;
  uint32_t number = add_relaxed(&pair_count, 1u), id = MERGED_FIRST + number;
  uint64_t *part = leveled_map((void **)&parts[number >> PART_BITS], PART_BITS, sizeof(uint64_t));
  if (!part) return 0;
  uint32_t cache = load_acquire(&cache_last);
  place_t place = place_of(cache, load_relaxed(&caches[cache]), pair);
  __builtin_prefetch(place.first, 1);
  if (python_merged_on_new) python_merged_on_new(id, native, chain);
  store_release(&part[number % PART_PAIRS], pair);
  put(&place, number);
  if (UNLIKELY(number >= 1u << (FIRST_BITS + GROWTH * cache - 1))) grow(cache);
  return id;
}

bool python_merged_get(uint32_t id, uint32_t *native, uint32_t *chain) {
  uint32_t number = id - MERGED_FIRST;
  uint64_t pair = number < PAIRS_MAX ? pair_of(number) : 0;
  *native = (uint32_t)(pair >> 32);
  *chain = (uint32_t)pair;
  return pair != 0;
}

void python_merged_each(void (*visit)(uint32_t id, uint32_t native, uint32_t chain)) {
  uint32_t native, chain;
  for (uint32_t number = 0; number < load_relaxed(&pair_count); number++)
    if (python_merged_get(MERGED_FIRST + number, &native, &chain))
      visit(MERGED_FIRST + number, native, chain);
}
