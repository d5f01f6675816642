/* SPDX-License-Identifier: MIT */
#include "analysis/malloc/estimate.h"

#include <math.h>

/* Of the normal distribution: 95 % of it is within this many standard deviations. */
static const double deviations = 1.96;

uint32_t estimate_sampled_weight(uint64_t size, uint64_t rate) {
  double blocks = -1 / expm1(-(double)(size ? size : 1) / (double)rate);
  return blocks < (double)(UINT32_MAX / WEIGHT_ONE) ? (uint32_t)(blocks * WEIGHT_ONE + 0.5)
                                                    : UINT32_MAX;
}

/* The variance of a count of blocks of SIZE bytes. */
static double variance(double count, double size, uint64_t rate) {
  return count > 0 && rate ? count / expm1((size > 1 ? size : 1) / (double)rate) : 0;
}

static uint64_t whole(double value) { return value < 1e18 ? (uint64_t)(value + 0.5) : UINT64_MAX; }

/* The mean size of AMOUNT's blocks; *COUNT is their number. */
static double mean_size(counts_t amount, double *count) {
  *count = fabs((double)(int64_t)amount.count);
  return *count > 0 ? fabs((double)(int64_t)amount.bytes) / *count : 0;
}

counts_t estimate_error(counts_t amount, uint64_t rate) {
  double count, size = mean_size(amount, &count);
  double error = deviations * sqrt(variance(count, size, rate));
  return (counts_t){whole(error), whole(error * size)};
}

uint64_t estimate_total_error(const replay_t *r, measure_t measure) {
  double sum = 0;
  for (size_t i = 0; i < r->stack_count; i++) {
    double count, size = mean_size(counts_of(&r->stacks[i], measure), &count);
    sum += variance(count, size, r->sample_bytes) * size * size;
  }
  return whole(deviations * sqrt(sum));
}

uint64_t estimate_count_error(const replay_t *r, bool live) {
  double sum = 0;
  for (int i = 0; i < SIZE_CLASSES; i++) {
    double count, size = mean_size(live ? r->sizes[i].live : r->sizes[i].allocated, &count);
    sum += variance(count, size, r->sample_bytes);
  }
  return whole(deviations * sqrt(sum));
}
