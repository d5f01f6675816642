/* SPDX-License-Identifier: MIT */
#include "capture/python/python_merged.h"

#include "capture/leveled_table.h"
#include "os/os.h"

#define SLOT_BITS  16
#define PART_BITS  16
#define PARTS_MAX  2048u
#define PAIRS_MAX  (PARTS_MAX << PART_BITS)
#define PART_PAIRS (1u << PART_BITS)

HIDDEN void (*python_merged_on_new)(uint32_t id, uint32_t native, uint32_t chain);

/* Pairs of native << 32 | chain by number, 0: not stored yet. */
static uint64_t *parts[PARTS_MAX];
static uint32_t pair_count;

/* The number of a pair, below bits of its hash that are not 0. A pair has two places. */
static uint64_t *slots;

bool python_merged_start(void) {
  return leveled_map((void **)&slots, SLOT_BITS, sizeof(uint64_t), true) != NULL;
}

static ALWAYS_INLINE uint64_t pair_of(uint32_t number) {
  const uint64_t *part = load_acquire(&parts[number >> PART_BITS]);
  return part ? load_acquire(&part[number % PART_PAIRS]) : 0;
}

/* 0: there is no more space. */
static NOINLINE uint32_t add_pair(uint64_t pair) {
  if (load_relaxed(&pair_count) >= PAIRS_MAX - 4096) return 0;
  uint32_t number = add_relaxed(&pair_count, 1u), id = MERGED_FIRST + number;
  uint64_t *part =
      leveled_map((void **)&parts[number >> PART_BITS], PART_BITS, sizeof(uint64_t), false);
  if (!part) return 0;
  if (python_merged_on_new) python_merged_on_new(id, (uint32_t)(pair >> 32), (uint32_t)pair);
  store_release(&part[number % PART_PAIRS], pair);
  return id;
}

/* The number of PAIR if SLOT has it; UINT32_MAX. */
static ALWAYS_INLINE uint32_t number_in(uint64_t slot, uint64_t mark, uint64_t pair) {
  uint32_t number = (uint32_t)slot;
  return slot - number == mark && pair_of(number) == pair ? number : UINT32_MAX;
}

uint32_t python_merged_id(uint32_t native, uint32_t chain) {
  uint64_t pair = (uint64_t)native << 32 | chain, hash = leveled_hash(pair),
           index = hash >> (64 - SLOT_BITS);
  uint64_t *slot = &slots[index], *other = &slots[index ^ 1];
  uint64_t mark = (hash << SLOT_BITS | UINT64_C(1) << 32) & ~(uint64_t)UINT32_MAX,
           first = load_acquire(slot);
  uint32_t number = number_in(first, mark, pair);
  if (LIKELY(number != UINT32_MAX)) return MERGED_FIRST + number;
  number = number_in(load_acquire(other), mark, pair);
  if (LIKELY(number != UINT32_MAX)) return MERGED_FIRST + number;
  uint32_t id = add_pair(pair);
  if (!id) return 0;
  store_release(other, first);
  store_release(slot, mark | (id - MERGED_FIRST));
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
