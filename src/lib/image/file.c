/* SPDX-License-Identifier: MIT
 *
 * Adds unwind sections of an image's file to a live image.
 *
 * Most images have .eh_frame_hdr and need no file. Statically linked programs and those of musl-gcc
 * have .eh_frame in memory but nothing that points to it; the section headers of the file do. Code
 * built without asynchronous unwind tables has at most .debug_frame, which no loader maps, so it is
 * copied. The file is read once for each image, when a walk first meets a pc that no row covers.
 * The added sections get search tables then: Mono's compiled libraries have 1 MB of .debug_frame.
 * The image with added sections is a second image_t, published by one compare-and-swap, so no
 * reader sees a half-described section.
 */
#include "image/file.h"

#include "base/bits.h"
#include "os/os.h"
#include "sonde/status.h"

#define PF_READ         4u
#define DEBUG_FRAME_MAX (32u << 20)

static bool is_file_of(const image_t *file, const image_entry_t *entry) {
  const image_t *live = &entry->image;
  if (file->machine != live->machine || file->build_id_size != live->build_id_size) return false;
  if (live->build_id_size)
    return __builtin_memcmp(file->build_id, live->build_id, live->build_id_size) == 0;
  return image_fingerprint(file, file->file) == entry->fingerprint;
}

bool image_file_open(const image_entry_t *entry, image_t *file) {
  const char *const paths[2] = {entry->file, entry->path};
  for (int i = 0; i < 2; i++) {
    if (!paths[i] || paths[i][0] != '/' || image_open(file, paths[i]) != SONDE_OK) continue;
    if (is_file_of(file, entry)) return true;
    image_close(file);
  }
  return false;
}

/* ---- unwind sections ------------------------------------------------------------------------- */

/* Returns the live bytes of a section at ADDRESS, as linked. */
static section_t live_section(const image_t *image, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (s->flags & PF_READ && address >= s->address && address - s->address < s->file_size &&
        size <= s->file_size - (address - s->address))
      return (section_t){(const uint8_t *)(uintptr_t)(address + image->slide), size, address};
  }
  return (section_t){0};
}

static section_t copy_of(const section_t *section) {
  if (section->size == 0 || section->size > DEBUG_FRAME_MAX) return (section_t){0};
  uint8_t *copy = os_map(section->size);
  if (!copy) return (section_t){0};
  if (os_read_memory((uint64_t)(uintptr_t)section->data, copy, section->size) ==
      (ssize_t)section->size)
    return (section_t){copy, section->size, section->address};
  os_unmap(copy, section->size);
  return (section_t){0};
}

/* Adds the sections of FILE to MORE, a copy of the live image. */
static bool add_sections(image_t *more, const image_t *file) {
  bool had_eh_frame = more->eh_frame.data != NULL;
  if (!had_eh_frame && file->eh_frame.data)
    more->eh_frame = live_section(more, file->eh_frame.address, file->eh_frame.size);
  if (file->debug_frame.data) more->debug_frame = copy_of(&file->debug_frame);
  return more->debug_frame.data || (!had_eh_frame && more->eh_frame.data);
}

static image_t *make_completed(const image_entry_t *entry, image_index_t *index) {
  image_t *memory = os_map(2 * sizeof *memory); /* too large for a signal stack */
  if (!memory) return NULL;
  image_t *more = memory, *file = memory + 1;
  bool added = false;
  if (image_file_open(entry, file)) {
    *more = entry->image;
    added = add_sections(more, file);
    image_close(file);
  }
  if (added) {
    index(more, true);
    return more;
  }
  os_unmap(memory, 2 * sizeof *memory);
  return NULL;
}

const image_t *image_complete(image_id_t id, image_index_t *index) {
  image_entry_t *entry = image_entry(id);
  if (!entry) return NULL;
  const image_t *known = load_acquire(&entry->completed);
  if (!known) {
    image_t *mine = entry->is_vdso ? NULL : make_completed(entry, index);
    const image_t *result = mine ? mine : &entry->image;
    if (cas_acq_rel(&entry->completed, &known, result)) {
      known = result;
    } else if (mine) {
      index(mine, false);
      if (mine->debug_frame.data)
        os_unmap((void *)(uintptr_t)mine->debug_frame.data, mine->debug_frame.size);
      os_unmap(mine, 2 * sizeof *mine);
    }
  }
  return known == &entry->image ? NULL : known;
}
