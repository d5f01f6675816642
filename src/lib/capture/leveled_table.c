/* SPDX-License-Identifier: MIT */
#include "capture/leveled_table.h"

#include "os/os.h"

void *leveled_map(void **level, unsigned bits, size_t slot_bytes) {
  void *have = load_acquire(level);
  if (have) return have;
  size_t size = slot_bytes << bits;
  void *mine = os_map(size);
  if (!mine) return NULL;
  if (cas_acq_rel(level, &have, mine)) return mine;
  os_unmap(mine, size);
  return have;
}
