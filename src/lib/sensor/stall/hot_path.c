/* SPDX-License-Identifier: MIT
 *
 * Descends level by level: of the stacks that agree down to the current depth, the heaviest group
 * that agrees on the next function.
 */
#include "sensor/stall/hot_path.h"

/* The weight of the stacks in SET that have the function of stack MODEL at DEPTH. */
static uint64_t weight_of(const hot_path_stack_t *stacks, const bool *set, size_t count,
                          size_t model, int depth) {
  uint64_t weight = 0;
  for (size_t i = 0; i < count; i++)
    if (set[i] && stacks[i].depth > depth &&
        stacks[i].functions[depth] == stacks[model].functions[depth])
      weight += stacks[i].weight;
  return weight;
}

/* A stack through the heaviest child at DEPTH; COUNT if there is none. */
static size_t heaviest(const hot_path_stack_t *stacks, const bool *set, size_t count, int depth,
                       uint64_t *most) {
  size_t best = count;
  *most = 0;
  for (size_t i = 0; i < count; i++) {
    if (!set[i] || stacks[i].depth <= depth) continue;
    uint64_t weight = weight_of(stacks, set, count, i, depth);
    if (weight <= *most) continue;
    *most = weight;
    best = i;
  }
  return best;
}

static void keep_through(const hot_path_stack_t *stacks, bool *set, size_t count, size_t model,
                         int depth) {
  for (size_t i = 0; i < count; i++)
    set[i] = set[i] && stacks[i].depth > depth &&
             stacks[i].functions[depth] == stacks[model].functions[depth];
}

bool hot_path_matches(const hot_path_stack_t *stack, const hot_path_stack_t *model, int depth) {
  if (stack->depth <= depth) return false;
  for (int i = depth; i >= 0; i--)
    if (stack->functions[i] != model->functions[i]) return false;
  return true;
}

uint64_t hot_path_weight(const hot_path_stack_t *stacks, size_t count,
                         const hot_path_stack_t *model, int depth) {
  uint64_t weight = 0;
  for (size_t i = 0; i < count; i++)
    if (hot_path_matches(&stacks[i], model, depth)) weight += stacks[i].weight;
  return weight;
}

hot_path_t hot_path_find(const hot_path_stack_t *stacks, size_t count, bool *set) {
  hot_path_t c = {.depth = -1};
  for (size_t i = 0; i < count; i++) {
    set[i] = true;
    c.total += stacks[i].weight;
  }
  c.weight = c.total;
  for (int depth = 0; c.total; depth++) {
    uint64_t most;
    size_t best = heaviest(stacks, set, count, depth, &most);
    if (best == count || most * 2 < c.total) break;
    keep_through(stacks, set, count, best, depth);
    c.stack = best;
    c.depth = depth;
    c.weight = most;
  }
  return c;
}
