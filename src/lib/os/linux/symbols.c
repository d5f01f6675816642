/* SPDX-License-Identifier: MIT
 *
 * Definitions by name in the loaded images, in the loader's order. The result equals that of
 * dlsym(RTLD_NEXT), without calling the loader or taking its lock.
 */
#include "base/bits.h"
#include "os/linux/dynamic.h"
#include "os/os.h"

typedef struct search {
  uint64_t after;
  bool passed;
  const char *const *names;
  uint64_t *addresses;
  int count;
} search_t;

static const Elf64_Dyn *dynamic_of(const os_image_t *image) {
  const Elf64_Phdr *phdr = (const Elf64_Phdr *)(uintptr_t)image->phdr;
  for (uint32_t i = 0; phdr && i < image->phdr_count; i++)
    if (phdr[i].p_type == PT_DYNAMIC)
      return (const Elf64_Dyn *)(uintptr_t)(phdr[i].p_vaddr + image->slide);
  return NULL;
}

static bool visit(const os_image_t *image, void *context) {
  search_t *search = context;
  if (!search->passed) {
    search->passed = search->after >= image->start && search->after < image->end;
    return true;
  }
  const Elf64_Dyn *entries = dynamic_of(image);
  if (!entries) return true;
  dynamic_t dynamic;
  dynamic_read(&dynamic, entries, image->slide, image->start, image->end);
  for (int i = 0; i < search->count; i++)
    if (!search->addresses[i])
      search->addresses[i] = dynamic_symbol(&dynamic, search->names[i], NULL);
  return true;
}

void os_symbols(uint64_t after, const char *const *names, uint64_t *addresses, int count) {
  search_t search = {after, after == 0, names, addresses, count};
  for (int i = 0; i < count; i++)
    addresses[i] = 0;
  os_images(visit, &search);
}
