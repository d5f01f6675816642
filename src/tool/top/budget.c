/* SPDX-License-Identifier: MIT */
#include "top/budget.h"

void top_costs_add(top_costs_t *costs, uint64_t ns) { costs->ns[costs->count++ % TOP_COSTS] = ns; }

uint64_t top_costs_least(const top_costs_t *costs) {
  uint32_t known = costs->count < TOP_COSTS ? costs->count : TOP_COSTS;
  uint64_t least = known > 1 ? costs->ns[0] : 0;
  for (uint32_t i = 1; i < known; i++)
    if (costs->ns[i] < least) least = costs->ns[i];
  return least;
}

uint64_t top_period_ns(uint64_t wanted_ns, uint64_t cost_ns, double share) {
  double needed = (double)cost_ns / share;
  if (needed >= (double)TOP_PERIOD_MAX_NS) needed = (double)TOP_PERIOD_MAX_NS;
  return needed > (double)wanted_ns ? (uint64_t)needed : wanted_ns;
}

uint64_t top_interval_ns(double cpus, uint64_t cost_ns) {
  double rate = cost_ns ? TOP_SAMPLE_SHARE * 1e9 / (double)cost_ns : TOP_SAMPLES_MAX;
  if (rate > TOP_SAMPLES_MAX) rate = TOP_SAMPLES_MAX;
  if (rate < 1) rate = 1;
  return (uint64_t)((cpus > 1 ? cpus : 1) * 1e9 / rate);
}
