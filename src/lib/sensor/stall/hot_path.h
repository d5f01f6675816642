/* SPDX-License-Identifier: MIT
 *
 * The hot path of an iteration: the deepest subtree of its sampled call tree that has at least half
 * of the time. One stack captured when the threshold is reached only shows where the thread is
 * then; the tree of all samples shows the code that used the time.
 *
 * Pure functions, used by the program's own monitor and by the report.
 */
#ifndef SONDE_SENSOR_STALL_HOT_PATH_H
#define SONDE_SENSOR_STALL_HOT_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A sampled stack: its functions as numbers, outermost first, and the time it represents. */
typedef struct hot_path_stack {
  const uint64_t *functions;
  int depth;
  uint64_t weight;
} hot_path_stack_t;

typedef struct hot_path {
  /* a stack on the hot path, as an index, and the depth of the hot function in it; -1: no stacks */
  size_t stack;
  int depth;
  /* time of the hot function's subtree, and of all stacks */
  uint64_t weight, total;
} hot_path_t;

/* Descends from the root to the heaviest child while that child has at least half of the total. SET
 * is working memory of COUNT entries. */
hot_path_t hot_path_find(const hot_path_stack_t *stacks, size_t count, bool *set);

/* The weight of the stacks that reach the function at DEPTH of MODEL by the same callers. */
uint64_t hot_path_weight(const hot_path_stack_t *stacks, size_t count,
                         const hot_path_stack_t *model, int depth);

/* True if STACK and MODEL agree from the root to DEPTH. */
bool hot_path_matches(const hot_path_stack_t *stack, const hot_path_stack_t *model, int depth);

#endif
