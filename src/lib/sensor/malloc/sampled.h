/* SPDX-License-Identifier: MIT
 *
 * Sampled blocks: allocation recording cheap enough to leave on.
 *
 * Every allocated byte is sampled with the same probability, one in `sample_bytes` on average, and
 * a block that contains a sampled byte is recorded. This is a Poisson process: the distance to the
 * next sampled byte is drawn from the exponential distribution. Large blocks are almost always
 * recorded, small ones in proportion, and a recorded block of s bytes represents 1 / (1 - e^(-s/B))
 * blocks, without bias.
 *
 * A free must know whether its block was recorded. The addresses are in a table that all threads
 * share without a lock. An address has one bucket, a cache line of eight entries; if it is full,
 * the address goes to its bucket in a larger level, which is mapped on first use. If mapping fails
 * the block is not recorded and counts as a lost event. A small filter counts the addresses of each
 * hash: a free whose count is 0 need not read the table, which is rarely in a CPU cache.
 *
 * An allocation that is not sampled costs a subtraction and a branch.
 */
#ifndef SONDE_SENSOR_MALLOC_SAMPLED_H
#define SONDE_SENSOR_MALLOC_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

#include "record/writer.h"

#define SAMPLED_FILTER_BITS 14
/* A saturated counter stays saturated. */
#define SAMPLED_FILTER_FULL 255
extern HIDDEN uint8_t sampled_filter[1u << SAMPLED_FILTER_BITS];

static ALWAYS_INLINE uint64_t sampled_hash(uint64_t address) {
  return (address >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

/* False if the block at ADDRESS is not sampled; true if it may be. */
static ALWAYS_INLINE bool sampled_may_be(uint64_t address) {
  return load_relaxed(&sampled_filter[sampled_hash(address) >> (64 - SAMPLED_FILTER_BITS)]) != 0;
}

/* True if an allocation of SIZE bytes is not sampled; its bytes are then accounted for. Otherwise
 * sampled_choose decides. */
static ALWAYS_INLINE bool sampled_passes(writer_t *w, uint64_t size) {
  if (w->sample_bytes != load_relaxed(&w->control->sample_bytes)) return false;
  uint64_t bytes = size ? size : 1;
  if (UNLIKELY((uint64_t)w->until_sample <= bytes)) return false;
  w->until_sample -= (int64_t)bytes;
  return true;
}

/* True if the block of SIZE bytes at ADDRESS is sampled; it is then in the table. */
bool sampled_choose(stream_t *s, uint64_t address, uint64_t size);

/* Removes ADDRESS from the table; false if it is not there. */
bool sampled_forget(uint64_t address);
/* Adds ADDRESS to the table again. */
void sampled_restore(uint64_t address);

/* The bytes that a sampled block of SIZE bytes represents at the rate SAMPLE_BYTES:
 * size / (1 - e^(-size / sample_bytes)). Their sum estimates all allocated bytes without bias. */
uint64_t sampled_weight(uint64_t size, uint64_t sample_bytes);

/* The natural logarithm of X > 0, to about 1e-6; libm is not available. Exported for tests. */
double sampled_log(double x);

#endif
