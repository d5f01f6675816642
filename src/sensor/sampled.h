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
 * A free must know whether its block was recorded: the addresses are kept in a table that all threads
 * share, without a lock. An address has one bucket, a cache line of eight places; a full bucket
 * means that a block is not recorded, which is counted as a lost event. An allocation that is not
 * chosen costs a subtraction and a branch, a free one line of the table.
 */
#ifndef SONDE_SENSOR_SAMPLED_H
#define SONDE_SENSOR_SAMPLED_H

#include <stdbool.h>
#include <stdint.h>

#include "record/write.h"

/* True when the block of SIZE bytes at ADDRESS is chosen and now known to be. */
bool sampled_choose(stream_t *s, uint64_t address, uint64_t size);

/* True when ADDRESS was chosen; it no longer is. */
bool sampled_forget(uint64_t address);
/* Takes the above back. */
void sampled_restore(uint64_t address);

/* The natural logarithm of X > 0, to about 1e-6: there is no libm in here. For tests. */
double sampled_log(double x);

#endif
