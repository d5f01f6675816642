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
 * the block is not recorded and counts as a lost event. A filter counts the sampled blocks that
 * begin in each KB: a free whose count is 0 need not read the table, which is rarely in a CPU
 * cache. KBs that are 64 MB apart may share a count. Blocks that a program frees one after the
 * other are often close to each other; their counts are then in one cache line.
 *
 * An event that is not recorded reads the thread's state, one word of the control page, and for a
 * free one byte of the filter: a cache line each. It writes at most the bytes to the next sampled
 * block. It has no branch that depends on the program's data, but for the rare recorded block.
 */
#ifndef SONDE_SENSOR_MALLOC_SAMPLED_H
#define SONDE_SENSOR_MALLOC_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

#include "record/writer.h"

#define SAMPLED_FILTER_BITS 16
/* A saturated counter stays saturated. */
#define SAMPLED_FILTER_FULL 255
extern HIDDEN uint8_t sampled_filter[1u << SAMPLED_FILTER_BITS];

/* An index of BITS bits, by regions of 2^SHIFT bytes: neighbors have neighboring indices. The
 * higher bits keep blocks of one size, in mappings of their own, from sharing an index. */
static ALWAYS_INLINE uint64_t sampled_near(uint64_t address, unsigned shift, unsigned bits) {
  uint64_t region = address >> shift;
  return (region ^ region >> bits) & ((UINT64_C(1) << bits) - 1);
}

static ALWAYS_INLINE uint8_t *sampled_count(uint64_t address) {
  return &sampled_filter[sampled_near(address, 10, SAMPLED_FILTER_BITS)];
}

/* False if the block at ADDRESS is not sampled; true if it may be. */
static ALWAYS_INLINE bool sampled_may_be(uint64_t address) {
  return load_relaxed(sampled_count(address)) != 0;
}

/* True if blocks are sampled and recorded in no other way, and `until_sample` is valid. False in a
 * forked child, in which the control page may be unmapped. */
static ALWAYS_INLINE bool sampled_alone(const writer_t *w) {
  return LIKELY(w->sampled_as) && LIKELY(w->sampled_as == load_relaxed(&w->control->mode_word));
}

/* Makes sampled_alone true if it can be. */
void sampled_prepare(writer_t *w);

/* True if an allocation of SIZE bytes is not sampled; its bytes are then accounted for. Otherwise
 * sampled_choose decides. */
static ALWAYS_INLINE bool sampled_passes(writer_t *w, uint64_t size) {
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
