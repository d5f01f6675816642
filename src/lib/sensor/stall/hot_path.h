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
typedef struct stall_path {
  const uint64_t *functions;
  int depth;
  uint64_t weight;
} stall_path_t;

typedef struct stall_culprit {
  size_t path;     /* one of the paths that lead through it … */
  int depth;       /* … and where it stands there; -1: there are no paths */
  uint64_t weight; /* of its subtree */
  uint64_t total;  /* of all paths */
} stall_culprit_t;

/* From the root down to the heaviest child for as long as that child has at least half of the
 * whole. SET is room for COUNT of them. */
stall_culprit_t stall_culprit_of(const stall_path_t *paths, size_t count, bool *set);

/* The weight of the paths through the function at DEPTH of MODEL. */
uint64_t stall_culprit_weight(const stall_path_t *paths, size_t count, const stall_path_t *model,
                              int depth);

/* Is the function at DEPTH of MODEL on PATH, reached by the same way? */
bool stall_path_through(const stall_path_t *path, const stall_path_t *model, int depth);

#endif
