/* SPDX-License-Identifier: MIT
 *
 * Level by level from the root: of the paths that lead through the node reached so far, the largest
 * group that agrees on the next function.
 */
#include "sensor/stall/hot_path.h"

/* The weight of the paths in SET that have the function of path MODEL at DEPTH. */
static uint64_t weight_of(const hot_path_stack_t *paths, const bool *set, size_t count,
                          size_t model, int depth) {
  uint64_t weight = 0;
  for (size_t i = 0; i < count; i++)
    if (set[i] && paths[i].depth > depth &&
        paths[i].functions[depth] == paths[model].functions[depth])
      weight += paths[i].weight;
  return weight;
}

/* The path through the heaviest child at DEPTH; COUNT when there is none. */
static size_t heaviest(const hot_path_stack_t *paths, const bool *set, size_t count, int depth,
                       uint64_t *most) {
  size_t best = count;
  *most = 0;
  for (size_t i = 0; i < count; i++) {
    if (!set[i] || paths[i].depth <= depth) continue;
    uint64_t weight = weight_of(paths, set, count, i, depth);
    if (weight <= *most) continue;
    *most = weight;
    best = i;
  }
  return best;
}

static void keep_through(const hot_path_stack_t *paths, bool *set, size_t count, size_t model,
                         int depth) {
  for (size_t i = 0; i < count; i++)
    set[i] = set[i] && paths[i].depth > depth &&
             paths[i].functions[depth] == paths[model].functions[depth];
}

bool hot_path_matches(const hot_path_stack_t *path, const hot_path_stack_t *model, int depth) {
  if (path->depth <= depth) return false;
  for (int i = depth; i >= 0; i--)
    if (path->functions[i] != model->functions[i]) return false;
  return true;
}

uint64_t hot_path_weight(const hot_path_stack_t *paths, size_t count, const hot_path_stack_t *model,
                         int depth) {
  uint64_t weight = 0;
  for (size_t i = 0; i < count; i++)
    if (hot_path_matches(&paths[i], model, depth)) weight += paths[i].weight;
  return weight;
}

hot_path_t hot_path_find(const hot_path_stack_t *paths, size_t count, bool *set) {
  hot_path_t c = {.depth = -1};
  for (size_t i = 0; i < count; i++) {
    set[i] = true;
    c.total += paths[i].weight;
  }
  c.weight = c.total;
  for (int depth = 0; c.total; depth++) {
    uint64_t most;
    size_t best = heaviest(paths, set, count, depth, &most);
    if (best == count || most * 2 < c.total) break;
    keep_through(paths, set, count, best, depth);
    c.path = best;
    c.depth = depth;
    c.weight = most;
  }
  return c;
}
