/* SPDX-License-Identifier: MIT
 *
 * Sampled blocks: an allocation log cheap enough to leave on.
 *
 * Every byte that is allocated is equally likely to be chosen, once in `sample_bytes` on average
 * (a Poisson process: the distance to the next chosen byte is drawn from the exponential
 * distribution), and a block with a chosen byte is recorded. So large blocks are nearly always
 * there, small ones in proportion, and a recorded block of s bytes stands for 1 / (1 - e^(-s/B))
 * blocks, without bias.
 *
 * A free must know whether its block was recorded: the addresses are kept in a table that all
 * threads share, without a lock. An address has one bucket, a cache line of eight places; when that
 * is full, it goes to its bucket in a larger level, which is mapped when it is first needed.
 * Without memory for that the block is not recorded, which is counted as a lost event. An
 * allocation that is not chosen costs a subtraction and a branch. So that a free need not look at
 * the table, which no cache holds, a small filter counts the addresses of each hash in it: 0 says
 * that none is there.
 */
#ifndef SONDE_SENSOR_MALLOC_SAMPLED_H
#define SONDE_SENSOR_MALLOC_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

#include "record/writer.h"

#define SAMPLED_FILTER_BITS 14
#define SAMPLED_FILTER_FULL 255 /* stays so: it has lost count */
extern HIDDEN uint8_t sampled_filter[1u << SAMPLED_FILTER_BITS];

static ALWAYS_INLINE uint64_t sampled_hash(uint64_t address) {
  return (address >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

/* False when the block at ADDRESS is not a chosen one. */
static ALWAYS_INLINE bool sampled_may_be(uint64_t address) {
  return load_relaxed(&sampled_filter[sampled_hash(address) >> (64 - SAMPLED_FILTER_BITS)]) != 0;
}

/* True when a block of SIZE bytes is not to be chosen, which is settled then; else sampled_choose
 * settles it. */
static ALWAYS_INLINE bool sampled_passes(writer_t *w, uint64_t size) {
  if (w->sample_bytes != load_relaxed(&w->control->sample_bytes)) return false;
  uint64_t bytes = size ? size : 1;
  if (UNLIKELY((uint64_t)w->until_sample <= bytes)) return false;
  w->until_sample -= (int64_t)bytes;
  return true;
}

/* True when the block of SIZE bytes at ADDRESS is chosen and now known to be. */
bool sampled_choose(stream_t *s, uint64_t address, uint64_t size);

/* True when ADDRESS was chosen; it no longer is. */
bool sampled_forget(uint64_t address);
/* Takes the above back. */
void sampled_restore(uint64_t address);

/* The natural logarithm of X > 0, to about 1e-6: there is no libm in here. For tests. */
double sampled_log(double x);

#endif
