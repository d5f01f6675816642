/* SPDX-License-Identifier: MIT
 *
 * See rebind.h. hook/patch.h makes the pages writable and restores them, as for ELF.
 */
#include "rebind.h"

#include "base/bits.h"
#include "hook/patch.h"

static bool is_named(const char *linked, const char *name) {
  if (*linked == '_') linked++;
  while (*linked && *linked == *name)
    linked++, name++;
  return *linked == *name;
}

macho_rebound_t macho_rebind(const macho_slot_list_t *slots, uint64_t slide, const char *name,
                             uint64_t value, macho_patch_t *patches, uint32_t capacity) {
  macho_rebound_t done = {0};
  patcher_t patcher = {.maps = -1};
  for (uint32_t i = 0; i < slots->count; i++) {
    const macho_slot_t *slot = &slots->items[i];
    if (!is_named(slot->name, name)) continue;
    uint64_t address = slot->address + slide;
    if (slot->is_signed || slot->addend || address % 8 || done.count == capacity) {
      done.skipped++;
      continue;
    }
    if (!patch_open(&patcher, address)) {
      done.refused++;
      continue;
    }
    uint64_t old = load_relaxed((uint64_t *)(uintptr_t)address);
    if (patch_word(&patcher, address, old, value) == PATCH_DONE)
      patches[done.count++] = (macho_patch_t){.address = address, .old = old};
    else
      done.refused++;
  }
  patch_end(&patcher);
  return done;
}

uint32_t macho_unbind(const macho_patch_t *patches, uint32_t count, uint64_t value) {
  patcher_t patcher = {.maps = -1};
  uint32_t done = 0;
  for (uint32_t i = 0; i < count; i++)
    done += patch_word(&patcher, patches[i].address, value, patches[i].old) == PATCH_DONE;
  patch_end(&patcher);
  return done;
}
