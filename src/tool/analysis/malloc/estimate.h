/* SPDX-License-Identifier: MIT
 *
 * Estimates from sampled blocks. A block of S bytes is recorded with probability p = 1 - e^(-S/B),
 * independently of all others, and represents 1/p blocks. So a sum over recorded blocks has no
 * bias, and its variance is known: N blocks of S bytes have the variance N * (1/p - 1).
 *
 * An error is half the width of the interval that contains the true number in 95 % of recordings.
 */
#ifndef SONDE_ANALYSIS_MALLOC_ESTIMATE_H
#define SONDE_ANALYSIS_MALLOC_ESTIMATE_H

#include "analysis/malloc/aggregate.h"

/* The number of blocks that a recorded block of SIZE bytes represents, in 1/WEIGHT_ONE. RATE is B;
 * 0: every block is recorded. */
uint32_t estimate_sampled_weight(uint64_t size, uint64_t rate);
static inline uint32_t estimate_weight(uint64_t size, uint64_t rate) {
  return rate ? estimate_sampled_weight(size, rate) : WEIGHT_ONE;
}

/* BYTES of a block, times its WEIGHT. */
static inline uint64_t estimate_scale(uint64_t bytes, uint32_t weight) {
  return weight == WEIGHT_ONE ? bytes : (uint64_t)((double)bytes * weight / WEIGHT_ONE);
}

/* The error of AMOUNT, of blocks of about one size; AMOUNT may be negative. If the sizes differ,
 * that of the bytes is an upper limit. */
counts_t estimate_error(counts_t amount, uint64_t rate);

/* The errors of totals: of the bytes that MEASURE ranks by, of all stacks together; of the blocks
 * allocated in all, or live at the end. */
uint64_t estimate_total_error(const replay_t *replay, measure_t measure);
uint64_t estimate_count_error(const replay_t *replay, bool live);

#endif
