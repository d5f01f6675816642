/* SPDX-License-Identifier: MIT
 *
 * The protection is that of the kernel's own list of mappings, not what the image's headers let one
 * expect, and it is changed for whole mappings: so no mapping is split, and the list afterwards
 * reads as before (of a part alone, the kernel does not always join the rest again). Another thread
 * sees the word before or after, never in between. Were the program to change the protection of the
 * same pages at the same time, the last word would be ours.
 */
#include "hook/patch.h"

#include <sys/mman.h>

#include "base/bits.h"
#include "os/os.h"

static void close_mapping(patcher_t *p) {
  if (p->opened) (void)os_protect(p->start, p->end, p->protection);
  p->opened = false;
}

int patch_protection(patcher_t *p, uint64_t address) {
  if (address >= p->start && address < p->end) return p->protection;
  close_mapping(p);
  if (p->maps < 0) p->maps = os_open_read("/proc/self/maps");
  p->start = p->end = 0;
  p->protection = p->maps < 0 ? -1 : os_mapping(p->maps, address, &p->start, &p->end);
  if (p->protection < 0) p->end = p->start = 0;
  return p->protection;
}

bool patch_open(patcher_t *p, uint64_t address) {
  if (patch_protection(p, address) < 0) return false;
  if ((p->protection & PROT_WRITE) || p->opened) return true;
  p->opened = os_protect(p->start, p->end, p->protection | PROT_WRITE) == 0;
  return p->opened;
}

patched_t patch_word(patcher_t *p, uint64_t address, uint64_t expected, uint64_t value) {
  uint64_t *word = (uint64_t *)(uintptr_t)address;
  if (!patch_open(p, address)) return PATCH_REFUSED;
  return cas_acq_rel(word, &expected, value) ? PATCH_DONE : PATCH_CHANGED;
}

void patch_end(patcher_t *p) {
  close_mapping(p);
  if (p->maps >= 0) os_close(p->maps);
  *p = (patcher_t){.maps = -1};
}
