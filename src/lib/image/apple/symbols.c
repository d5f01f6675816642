/* SPDX-License-Identifier: MIT
 *
 * os_symbols of os.h. On Apple's systems it is in this module, beside the reader of exports. It
 * does not call dyld, because another thread may hold dyld's lock while it waits for a lock of
 * sonde.
 */
#include "base/bits.h"
#include "image/import_slots.h"

typedef struct search {
  uint64_t after;
  const char *const *names;
  uint64_t *addresses;
  int count;
  bool begun;
} search_t;

static bool look(const os_image_t *image, void *context) {
  search_t *s = context;
  import_slots_t slots;
  if (!s->begun) {
    s->begun = s->after - image->start < image->end - image->start;
    return true;
  }
  if (!import_slots_read(&slots, image)) return true;
  int missing = 0;
  for (int i = 0; i < s->count; i++) {
    uint32_t number;
    elf_sym_t sym;
    if (s->addresses[i]) continue;
    if (import_slots_definition(&slots, s->names[i], NULL, &number, &sym))
      s->addresses[i] = sym.value + slots.slide;
    else
      missing++;
  }
  return missing > 0;
}

void os_symbols(uint64_t after, const char *const *names, uint64_t *addresses, int count) {
  search_t search = {after, names, addresses, count, after == 0};
  for (int i = 0; i < count; i++)
    addresses[i] = 0;
  os_images(look, &search);
}
