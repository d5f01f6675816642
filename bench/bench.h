/* SPDX-License-Identifier: MIT
 *
 * What the benchmarks share: a clock, medians, and rounds in which the rivals take turns, so that a
 * machine that slows down slows all of them.
 */
#ifndef SONDE_BENCH_BENCH_H
#define SONDE_BENCH_BENCH_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t bench_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int bench_compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static inline double bench_median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, bench_compare);
  return values[count / 2];
}

#endif
