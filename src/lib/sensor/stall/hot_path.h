/* SPDX-License-Identifier: MIT
 *
 * Who held a turn up: the innermost subtree of the sampled call tree that owned most of the turn's
 * wall time. A stack that is taken once, when the threshold is reached, shows who happens to be
 * there then; the tree of all samples shows who took the time.
 */
#ifndef SONDE_SENSOR_STALL_HOT_PATH_H
#define SONDE_SENSOR_STALL_HOT_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A sampled stack: its functions as numbers, outermost first, and the time it stands for. */
typedef struct hot_path_stack {
  const uint64_t *functions;
  int depth;
  uint64_t weight;
} hot_path_stack_t;

typedef struct hot_path {
  size_t path;     /* one of the paths that lead through it … */
  int depth;       /* … and where it stands there; -1: there are no paths */
  uint64_t weight; /* of its subtree */
  uint64_t total;  /* of all paths */
} hot_path_t;

/* From the root down to the heaviest child for as long as that child has at least half of the
 * whole. SET is room for COUNT of them. */
hot_path_t hot_path_find(const hot_path_stack_t *paths, size_t count, bool *set);

/* The weight of the paths through the function at DEPTH of MODEL. */
uint64_t hot_path_weight(const hot_path_stack_t *paths, size_t count, const hot_path_stack_t *model,
                         int depth);

/* Is the function at DEPTH of MODEL on PATH, reached by the same way? */
bool hot_path_matches(const hot_path_stack_t *path, const hot_path_stack_t *model, int depth);

#endif
