/* SPDX-License-Identifier: MIT
 *
 * Definitions by name in the loaded images, in the loader's order. The result equals that of
 * dlsym(RTLD_NEXT), without calling the loader or taking its lock.
 *
 * The start of the agent looks for the names of a dozen files. Two system calls would read each
 * image for each of them, so the list of images is kept meanwhile.
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

#define KEPT_MAX 256u

/* The loader's list, from os_symbols_begin on; count 0: not kept. */
static struct {
  os_image_t images[KEPT_MAX];
  uint32_t count;
  bool is_whole;
} kept;

static bool keep(const os_image_t *image, void *context) {
  (void)context;
  kept.is_whole = kept.count < KEPT_MAX;
  if (kept.is_whole) kept.images[kept.count++] = *image;
  return kept.is_whole;
}

void os_symbols_begin(void) {
  os_images(keep, NULL);
  if (!kept.is_whole) kept.count = 0;
}

void os_symbols_end(void) { kept.count = 0; }

void os_symbols(uint64_t after, const char *const *names, uint64_t *addresses, int count) {
  search_t search = {after, after == 0, names, addresses, count};
  for (int i = 0; i < count; i++)
    addresses[i] = 0;
  for (uint32_t i = 0; i < kept.count; i++)
    (void)visit(&kept.images[i], &search);
  if (!kept.count) os_images(visit, &search);
}
