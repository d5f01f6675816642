/* SPDX-License-Identifier: MIT
 *
 * The loaded images, from dyld's callbacks.
 *
 * dyld's own list may change while it is read, and its query functions take dyld's lock. So this
 * file keeps a table of its own, filled by callbacks (_dyld_register_func_for_add_image). dyld
 * calls them for every image, including those already loaded, before the constructors of the image.
 * An entry is published by its header field, which is written last. An entry of an unloaded image
 * is reused.
 */
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#include <stddef.h>

#include "base/bits.h"
#include "os/os.h"

#define IMAGES_MAX 4096u

typedef struct known {
  uint64_t header; /* 0: free */
  uint64_t slide, start, end;
  const char *path;
} known_t;

static known_t images[IMAGES_MAX];
static uint32_t image_count; /* entries ever used */
static uint64_t adds;
static uint32_t loaded;
static const uint64_t one = 1;

os_epoch_words_t os_epoch_words = {&adds, &loaded, &one};

uint64_t os_loader_epoch_slow(void) { return 0; }

/* Computes the range of the segments, except __PAGEZERO and __LINKEDIT, which images may share. */
static void measure(known_t *image, const struct mach_header_64 *header) {
  const uint8_t *at = (const uint8_t *)(header + 1);
  image->start = UINT64_MAX;
  for (uint32_t i = 0; i < header->ncmds; i++) {
    const struct load_command *command = (const struct load_command *)at;
    const struct segment_command_64 *s = (const struct segment_command_64 *)at;
    at += command->cmdsize;
    if (command->cmd != LC_SEGMENT_64 || !s->initprot || !s->vmsize ||
        __builtin_memcmp(s->segname, SEG_LINKEDIT, sizeof SEG_LINKEDIT) == 0)
      continue;
    if (s->vmaddr + image->slide < image->start) image->start = s->vmaddr + image->slide;
    if (s->vmaddr + s->vmsize + image->slide > image->end)
      image->end = s->vmaddr + s->vmsize + image->slide;
  }
}

static const char *path_of(const struct mach_header *header) {
  for (uint32_t i = 0, count = _dyld_image_count(); i < count; i++)
    if (_dyld_get_image_header(i) == header) return _dyld_get_image_name(i);
  return NULL;
}

static void (*listener)(void);

void os_loader_listen(void (*called)(void)) { store_release(&listener, called); }

static void add(const struct mach_header *header, intptr_t slide) {
  uint32_t i = 0, count = load_relaxed(&image_count);
  if (header->magic != MH_MAGIC_64) return;
  while (i < count && load_relaxed(&images[i].header))
    i++;
  if (i == IMAGES_MAX) return;
  known_t *image = &images[i];
  *image = (known_t){.slide = (uint64_t)slide, .path = path_of(header)};
  measure(image, (const struct mach_header_64 *)header);
  store_release(&image->header, (uint64_t)header);
  if (i == count) store_release(&image_count, count + 1);
  add_relaxed(&loaded, 1);
  __atomic_fetch_add(&adds, 1, __ATOMIC_RELEASE);
}

static void added(const struct mach_header *header, intptr_t slide) {
  add(header, slide);
  void (*called)(void) = load_acquire(&listener);
  if (called) called();
}

static uint32_t holders; /* threads that read images now; only dlclose waits for them */

/* Runs before dyld unmaps an image. Holders never call dyld, so they always make progress. */
static void wait_for_holders(void) {
  static const uint32_t never = 0;
  while (load_acquire(&holders))
    (void)os_futex_wait(&never, 0, 1000000);
}

int os_loader_hold(void (*run)(void *context), void *context) {
  __atomic_fetch_add(&holders, 1, __ATOMIC_SEQ_CST);
  run(context);
  __atomic_fetch_sub(&holders, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static void removed(const struct mach_header *header, intptr_t slide) {
  (void)slide;
  for (uint32_t i = 0; i < load_relaxed(&image_count); i++) {
    if (load_relaxed(&images[i].header) != (uint64_t)header) continue;
    store_release(&images[i].header, 0);
    add_relaxed(&loaded, (uint32_t)-1);
    __atomic_fetch_add(&adds, 1, __ATOMIC_RELEASE);
  }
  wait_for_holders();
}

void os_loader_init(void) {
  _dyld_register_func_for_add_image(added);
  _dyld_register_func_for_remove_image(removed);
}

__attribute__((constructor)) static void prepare(void) { os_loader_init(); }

/* Copies entry I. Returns false if it is not a complete entry. */
static bool take(uint32_t i, os_image_t *out) {
  const known_t *image = &images[i];
  uint64_t header = load_acquire(&image->header);
  if (!header) return false;
  *out = (os_image_t){.start = image->start,
                      .end = image->end,
                      .slide = image->slide,
                      .header = header,
                      .path = image->path};
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return load_relaxed(&image->header) == header;
}

bool os_image_of_pc(uint64_t pc, os_image_t *out) {
  for (uint32_t i = 0, count = load_acquire(&image_count); i < count; i++)
    if (take(i, out) && pc >= out->start && pc < out->end) return true;
  return false;
}

void os_images(bool (*visit)(const os_image_t *image, void *context), void *context) {
  os_image_t image;
  for (uint32_t i = 0, count = load_acquire(&image_count); i < count; i++)
    if (take(i, &image) && !visit(&image, context)) return;
}
