/* SPDX-License-Identifier: MIT */
#include "analysis/malloc/replay.h"

/* The first tick at or after NS. The search halves the range, because nanoseconds grow with ticks.
 */
uint64_t replay_tick(const reader_t *reader, uint64_t ns) {
  uint64_t low = 0, high = UINT64_MAX;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (reader_ns(reader, middle) >= ns)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
