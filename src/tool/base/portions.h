/* SPDX-License-Identifier: MIT
 *
 * Divides an amount in proportion to counts that come one after the other. Each portion is rounded
 * so that the sum of the portions so far is the nearest integer: the sum of all portions is the
 * amount, and a portion is wrong by less than 2. The amount is at most 2^51.
 */
#ifndef SONDE_BASE_PORTIONS_H
#define SONDE_BASE_PORTIONS_H

#include <stdint.h>

/* Begins with the amount and the sum of the counts. */
typedef struct portions {
  uint64_t amount, counts;
  uint64_t taken; /* the sum of the counts so far */
} portions_t;

/* The portion of all counts below COUNT. */
static inline uint64_t portions_until(const portions_t *p, uint64_t count) {
  if (count >= p->counts) return p->amount;
  return (uint64_t)((double)count / (double)p->counts * (double)p->amount + 0.5);
}

/* The portion of the next COUNT. */
static inline uint64_t portions_next(portions_t *p, uint64_t count) {
  uint64_t before = portions_until(p, p->taken);
  p->taken += count;
  return portions_until(p, p->taken) - before;
}

/* The portion of a count of 1, rounded down. */
static inline uint64_t portions_of_one(const portions_t *p) {
  return p->counts ? p->amount / p->counts : 0;
}

#endif
