/* SPDX-License-Identifier: MIT */
#include "sensor/stall/stall_locks.h"

void stall_locks_add(stall_locks_t *locks, const stall_lock_t *seen) {
  stall_lock_t *latest = &locks->latest;
  locks->current = *seen;
  if (!seen->address) return;
  if (seen->address != latest->address) *latest = (stall_lock_t){.address = seen->address};
  /* an owner that has just released the lock is unknown */
  if (seen->owner) latest->owner = seen->owner;
  latest->deadlock = seen->deadlock;
  latest->waited_ns += seen->waited_ns;
  if (latest->waited_ns >= locks->longest.waited_ns) locks->longest = *latest;
}
