/* SPDX-License-Identifier: MIT
 *
 * What changed between two builds: stacks whose mean amount in a session differs.
 *
 * The values are the amounts of a stack in each session that recorded the measure; a session
 * without the stack counts as 0. Stacks of one signature are one row: the standard deviation of
 * their sum is at most the sum of theirs, which is used. So a change is never called more certain
 * than it is. Welch's t-test compares the means. With M rows compared, a change counts when its p
 * is below 0.05 / M (Bonferroni): no more than 5 of 100 comparisons of equal builds report any
 * change.
 *
 * Only names relate the stacks of different builds. So a stack of one build is not compared if it
 * has a frame without a name in an image that the other build does not have: the other build may
 * have the same stack at other addresses.
 */
#ifndef SONDE_STORE_REGRESSIONS_H
#define SONDE_STORE_REGRESSIONS_H

#include "store/answer.h"

#define REGRESSIONS_LEVEL 0.05

typedef struct regressions {
  size_t certain;  /* increases that count */
  size_t compared; /* stacks of a measure */
  size_t nameless; /* not compared */
} regressions_t;

/* Compares the builds, by query_build, largest certain increase first. ALL: also changes that do
 * not count. False: failed. */
bool regressions_find(engine_t *engine, int64_t old_build, int64_t new_build, bool all,
                      answer_t *out, regressions_t *found);

#endif
