/* SPDX-License-Identifier: MIT */
#include "target/jit/images.h"

#include <stdlib.h>

#include "target/jit/registered.h"
#include "target/jit/symfile.h"

#define EH_FRAME_MAX (UINT64_C(16) << 20)

typedef struct jit_image {
  image_t image;
  /* its .eh_frame; owned */
  uint8_t *eh_frame;
} jit_image_t;

struct jit_images {
  ARRAY(jit_image_t) items;
  memory_t *memory;
  machine_t machine;
};

static void copy_eh_frame(memory_t *memory, jit_image_t *added) {
  section_t *section = &added->image.eh_frame;
  bool fits = section->size > 0 && section->size <= EH_FRAME_MAX;
  uint8_t *copy = fits ? malloc((size_t)section->size) : NULL;
  if (copy && memory->read(memory, section->address, copy, (size_t)section->size)) {
    added->eh_frame = copy;
    section->data = copy;
    return;
  }
  free(copy);
  *section = (section_t){0};
}

static void add_image(void *context, const uint8_t *data, size_t size) {
  jit_images_t *images = context;
  image_machine_t wanted = images->machine == MACHINE_AARCH64 ? IMAGE_AARCH64 : IMAGE_X86_64;
  image_t image;
  if (!jit_symfile_image(data, size, &image) || image.machine != wanted) return;
  jit_image_t *added = ARRAY_ADD(images->items);
  if (!added) return;
  *added = (jit_image_t){.image = image};
  copy_eh_frame(images->memory, added);
}

jit_images_t *jit_images_open(target_t *target) {
  jit_images_t *images = calloc(1, sizeof *images);
  jit_registered_t registered = {0};
  jit_reader_t reader = jit_reader(target);
  if (!images) return NULL;
  images->memory = &reader.memory;
  images->machine = target->machine;
  jit_registered_find(&registered, target);
  jit_registered_read(&registered, &reader.memory, add_image, images);
  jit_registered_free(&registered);
  if (images->items.count) return images;
  jit_images_close(images);
  return NULL;
}

void jit_images_close(jit_images_t *images) {
  if (!images) return;
  for (size_t i = 0; i < images->items.count; i++)
    free(images->items.items[i].eh_frame);
  free(images->items.items);
  free(images);
}

static bool has(const image_t *image, uint64_t pc) {
  for (uint32_t i = 0; i < image->segment_count; i++)
    if (pc - image->segments[i].address < image->segments[i].size) return true;
  return false;
}

/* Later files are of later code, if a damaged list has two at an address. */
const image_t *jit_images_find(const jit_images_t *images, uint64_t pc) {
  for (size_t i = images->items.count; i-- > 0;)
    if (has(&images->items.items[i].image, pc)) return &images->items.items[i].image;
  return NULL;
}
