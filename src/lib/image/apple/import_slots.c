/* SPDX-License-Identifier: MIT
 *
 * image/import_slots.h for a loaded Mach-O image. Its slots are those of macho/slots.h. If they are
 * chained (LC_DYLD_CHAINED_FIXUPS), dyld has overwritten the chains, so the chains are read from
 * the image's file. The UUID shows whether that is the file that was loaded. Slots of calls are
 * listed without the file, too. Mach-O has no symbol versions.
 */
#include "base/bits.h"
#include "image/macho/slots.h"
#include "image/import_slots.h"
#include "sonde/status.h"

/* The hooks call this for every image at each change of the loader's list. So it reads only the
 * facts that distinguish the image from another one at the same address. */
bool import_slots_read(import_slots_t *out, const os_image_t *os) {
  image_t image;
  *out = (import_slots_t){.slide = os->slide, .start = os->start, .end = os->end};
  if (image_parse_live(&image, os->header, os->slide) != 0 || !image.is_macho) return false;
  out->dynamic = (const uint8_t *)(uintptr_t)os->header;
  out->names = os->path;
  for (uint32_t i = 0; i < image.build_id_size; i++)
    out->names_size = out->names_size * 257 + image.build_id[i];
  return true;
}

static slot_kind_t kind_of(const macho_slot_t *slot) {
  if (slot->found & (MACHO_SLOT_LAZY | MACHO_SLOT_LAZY_BIND)) return SLOT_JUMP;
  return slot->found & MACHO_SLOT_NON_LAZY ? SLOT_GLOB_DAT : SLOT_DATA;
}

typedef struct each {
  const import_slots_t *slots;
  const slot_names_t *names;
  bool (*visit)(const slot_t *slot, void *context);
  void *context;
} each_t;

static void each_of(const macho_slot_list_t *list, const each_t *e) {
  for (uint32_t i = 0; i < list->count; i++) {
    const macho_slot_t *from = &list->items[i];
    const char *name = from->name[0] == '_' ? from->name + 1 : from->name;
    slot_t slot = {.address = from->address + e->slots->slide, .kind = kind_of(from), .name = name};
    if (from->addend || from->is_signed || slot.address % 8) continue;
    if (e->names && !slot_names_may_hold(e->names, name)) continue;
    if (!e->visit(&slot, e->context)) return;
  }
}

static bool same_build(const image_t *a, const image_t *b) {
  return a->build_id_size && a->build_id_size == b->build_id_size &&
         __builtin_memcmp(a->build_id, b->build_id, a->build_id_size) == 0;
}

/* Opens the slice of the file PATH that LIVE was loaded from. */
static bool open_file(image_t *file, const image_t *live, const char *path) {
  macho_slice_t slices[MACHO_SLICES_MAX];
  if (!path || image_open(file, path) != 0) return false;
  int count = macho_slices(file->mapped, file->mapped_size, slices);
  for (int i = 0; i < count; i++) {
    image_t slice = {.file = file->mapped, .file_size = file->mapped_size};
    if (macho_parse_file(&slice, &slices[i], NULL) != 0 || !same_build(&slice, live)) continue;
    slice.mapped = file->mapped;
    slice.mapped_size = file->mapped_size;
    *file = slice;
    return true;
  }
  image_close(file);
  return false;
}

/* libsonde.dylib reports no slots: its own calls to libSystem are not calls of the program, and a
 * hook on them would call itself. A program that links libsonde statically has slots. */
static bool is_libsonde(const image_t *image) {
  uint64_t here = (uint64_t)(uintptr_t)&import_slots_read;
  return here >= image->start && here < image->end && !image->is_executable;
}

void import_slots_each(const import_slots_t *slots, const slot_names_t *names,
                       bool (*visit)(const slot_t *slot, void *context), void *context) {
  each_t e = {slots, names, visit, context};
  image_t live, file;
  macho_slot_list_t list, more;
  if (image_parse_live(&live, (uintptr_t)slots->dynamic, slots->slide) != 0 || is_libsonde(&live))
    return;
  if (!macho_slots_read(&live, &list)) return;
  bool with_file = list.needs_file && open_file(&file, &live, slots->names);
  if (with_file && macho_slots_read(&file, &more)) {
    each_of(&more, &e);
    macho_slots_free(&more);
  } else {
    each_of(&list, &e);
  }
  macho_slots_free(&list);
  if (with_file) image_close(&file);
}

const char *import_slots_version(const import_slots_t *slots, uint32_t symbol, bool *hidden) {
  (void)slots, (void)symbol;
  if (hidden) *hidden = false;
  return NULL;
}

bool import_slots_definition(const import_slots_t *slots, const char *name, const char *version,
                             uint32_t *symbol, elf_sym_t *out) {
  image_t live;
  uint64_t address;
  (void)version;
  *symbol = 0;
  *out = (elf_sym_t){.type = ELF_STT_FUNC};
  if (image_parse_live(&live, (uintptr_t)slots->dynamic, slots->slide) != 0 ||
      !macho_export(&live, name, &address))
    return false;
  out->value = address;
  return true;
}
