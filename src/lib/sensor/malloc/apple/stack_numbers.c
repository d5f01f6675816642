/* SPDX-License-Identifier: MIT */
#include "sensor/malloc/apple/stack_numbers.h"

#include <string.h>

#include "os/os.h"

/* Of ids. There are twice as many slots. */
#define CAPACITY_LEAST 64u
#define CAPACITY_MOST  (1u << 30)

static uint32_t *slot_of(const stack_numbers_t *all, uint64_t id) {
  uint32_t mask = 2 * all->capacity - 1, at = (uint32_t)(id * 0x9e3779b97f4a7c15u >> 32) & mask;
  while (all->slots[at] && all->ids[all->slots[at] - 1] != id)
    at = (at + 1) & mask;
  return &all->slots[at];
}

void stack_numbers_free(stack_numbers_t *all) {
  if (all->ids) os_unmap(all->ids, all->capacity * sizeof *all->ids);
  if (all->slots) os_unmap(all->slots, 2 * (size_t)all->capacity * sizeof *all->slots);
  *all = (stack_numbers_t){0};
}

static bool grow(stack_numbers_t *all) {
  if (all->capacity == CAPACITY_MOST) return false;
  stack_numbers_t wider = {.count = all->count,
                           .capacity = all->capacity ? 2 * all->capacity : CAPACITY_LEAST};
  wider.ids = os_map(wider.capacity * sizeof *wider.ids);
  wider.slots = os_map(2 * (size_t)wider.capacity * sizeof *wider.slots);
  if (!wider.ids || !wider.slots) {
    stack_numbers_free(&wider);
    return false;
  }
  for (uint32_t i = 0; i < all->count; i++) {
    wider.ids[i] = all->ids[i];
    *slot_of(&wider, wider.ids[i]) = i + 1;
  }
  stack_numbers_free(all);
  *all = wider;
  return true;
}

bool stack_numbers_of(stack_numbers_t *all, uint64_t id, uint32_t *number) {
  if (all->count == all->capacity && !grow(all)) return false;
  uint32_t *slot = slot_of(all, id);
  if (!*slot) {
    all->ids[all->count] = id;
    *slot = ++all->count;
  }
  *number = *slot - 1;
  return true;
}
