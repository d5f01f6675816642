/* SPDX-License-Identifier: MIT
 *
 * The function that a name refers to on Apple's systems: that of the first image in load order that
 * exports it. dyld is not called: it would take its lock, while its owner may wait for sonde's.
 */
#include "base/bits.h"
#include "hook/internal.h"

bool hooks_resolve(const hooks_t *h, const char *name, const char *version, uint64_t past,
                   symbol_t *out) {
  (void)version, (void)past;
  for (uint32_t i = 0; i < h->image_count; i++) {
    const import_slots_t *slots = &h->images[i].slots;
    uint32_t number;
    elf_sym_t sym;
    if (!h->images[i].has_slots || !import_slots_definition(slots, name, NULL, &number, &sym))
      continue;
    out->original = sym.value + slots->slide;
    out->definer = slots->start;
    out->canonical = 0;
    return hooks_name_symbol(out, name, "");
  }
  return false;
}
