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
 */
#ifndef SONDE_STORE_REGRESSIONS_H
#define SONDE_STORE_REGRESSIONS_H

#include "store/answer.h"

#define REGRESSIONS_LEVEL 0.05

/* Compares the builds, by query_build, largest certain increase first. ALL: also changes that do
 * not count. *CERTAIN is the number of increases that count. False: failed. */
bool regressions_find(engine_t *engine, int64_t old_build, int64_t new_build, bool all,
                      answer_t *out, size_t *certain);

#endif
