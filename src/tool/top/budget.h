/* SPDX-License-Identifier: MIT
 *
 * How often top reads the program, so that it uses at most TOP_SHARE of a CPU: what a reading cost
 * decides when the next one is due. Pure.
 */
#ifndef SONDE_TOP_BUDGET_H
#define SONDE_TOP_BUDGET_H

#include <stdint.h>

/* Of one CPU: for frames, for samples of running threads, and for the heap. */
#define TOP_FRAME_SHARE  0.010
#define TOP_SAMPLE_SHARE 0.005
#define TOP_HEAP_SHARE   0.003

#define TOP_PERIOD_MAX_NS UINT64_C(10000000000)
#define TOP_SAMPLES_MAX   50.0 /* a second, of all threads together */

/* The costs of the last few readings. The first one opens files and reads symbols, so the smallest
 * is what the next one is expected to cost; 0: not known yet. */
enum { TOP_COSTS = 4 };
typedef struct top_costs {
  uint64_t ns[TOP_COSTS];
  uint32_t count;
} top_costs_t;

void top_costs_add(top_costs_t *costs, uint64_t ns);
uint64_t top_costs_least(const top_costs_t *costs);

/* The time between two readings of COST_NS each, at least WANTED_NS, that uses at most SHARE. */
uint64_t top_period_ns(uint64_t wanted_ns, uint64_t cost_ns, double share);

/* The CPU time of each thread between two of its samples, of COST_NS each, while the threads use
 * CPUS processors together. */
uint64_t top_interval_ns(double cpus, uint64_t cost_ns);

#endif
