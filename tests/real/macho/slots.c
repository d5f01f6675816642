/* SPDX-License-Identifier: MIT
 *
 * macho-slots FILE: prints the import slots of each image of a Mach-O file, one line a slot:
 * architecture, address, library, addend, weak, signed, where it was found, name.
 *
 * macho-slots FILE NAME: maps the 64-bit images of FILE into memory as dyld does, at another
 * address than they were linked at and with __DATA_CONST closed, reads each there, rebinds NAME and
 * puts it back; prints how many slots that were. Fails when a byte or the protection of a page is
 * not what it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rebind.h"
#include "image/macho/format.h"

static int print_slots(const image_t *image, const macho_slice_t *slice) {
  macho_slot_list_t list;
  if (!macho_slots_read(image, &list)) return 1;
  for (uint32_t i = 0; i < list.count; i++) {
    const macho_slot_t *s = &list.items[i];
    const char *arch = slice->machine == IMAGE_AARCH64  ? "arm64"
                       : slice->machine == IMAGE_X86_64 ? "x86_64"
                                                        : "other";
    printf("%s%s 0x%" PRIx64 " %d %" PRId64 " %d %d %u %s\n", arch, slice->is_arm64e ? "e" : "",
           s->address, s->library, s->addend, s->is_weak, s->is_signed, s->found, s->name);
  }
  int broken = list.broken || list.has_threaded;
  if (broken) fprintf(stderr, "%u entries are broken\n", list.broken);
  macho_slots_free(&list);
  return broken;
}

/* ---- in memory ---------------------------------------------------------------------------- */

#define PAGE      4096u
#define ROUND(n)  (((n) + PAGE - 1) & ~(uint64_t)(PAGE - 1))
#define SLOTS_MAX 65536

static int protection_of(const segment_t *s) {
  int writable = (s->flags & 2) && !s->is_const ? PROT_WRITE : 0;
  return PROT_READ | writable;
}

/* Where the image's lowest address stands now. */
static uint8_t *map_image(const image_t *image) {
  uint64_t size = ROUND(image->end - image->start);
  uint8_t *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return NULL;
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    memcpy(base + (s->address - image->start), image->file + s->file_offset, s->file_size);
  }
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    mprotect(base + (s->address - image->start), ROUND(s->size), protection_of(s));
  }
  return base;
}

/* The lines of /proc/self/maps within [START, END). */
static void list_mappings(uint64_t start, uint64_t end, char *out, size_t room) {
  char line[512];
  size_t used = 0;
  uint64_t low;
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%" SCNx64, &low) == 1 && low >= start && low < end)
      used += (size_t)snprintf(out + used, room - used, "%s", line);
  if (maps) fclose(maps);
}

static int fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

static int rebind(const image_t *file, const image_t *live, const char *name) {
  static macho_patch_t patches[SLOTS_MAX];
  static char before[1 << 16], after[1 << 16];
  macho_slot_list_t of_file, of_memory;
  uint64_t size = live->end - live->start, value = 0x1122334455667788;
  uint8_t *copy = malloc(size);
  if (!copy || !macho_slots_read(file, &of_file) || !macho_slots_read(live, &of_memory)) return 1;
  if (of_memory.needs_file != (file->macho.chained_fixups.size > 0))
    return fail("a live image with chained fixups does not ask for its file");
  if (!of_memory.needs_file && of_memory.count != of_file.count)
    return fail("the live image and its file differ in their slots");
  for (uint32_t i = 0; i < of_memory.count; i++) {
    const macho_slot_t *s = macho_slot_at(&of_file, of_memory.items[i].address);
    if (!s || strcmp(s->name, of_memory.items[i].name) != 0) return fail("a slot has two names");
  }
  memcpy(copy, (void *)live->start, size);
  list_mappings(live->start, live->end, before, sizeof before);
  macho_rebound_t done = macho_rebind(&of_file, live->slide, name, value, patches, SLOTS_MAX);
  list_mappings(live->start, live->end, after, sizeof after);
  if (strcmp(before, after) != 0) return fail("the protection of a page is not put back");
  if (done.refused) return fail("a slot was refused");
  for (uint32_t i = 0; i < done.count; i++) {
    uint64_t stands;
    memcpy(&stands, (void *)patches[i].address, sizeof stands);
    if (stands != value) return fail("a slot does not hold the new value");
  }
  if (macho_unbind(patches, done.count, value) != done.count) return fail("not all is put back");
  if (memcmp(copy, (void *)live->start, size) != 0) return fail("a byte is not what it was");
  printf("%u\n", done.count);
  free(copy);
  macho_slots_free(&of_file);
  macho_slots_free(&of_memory);
  return 0;
}

static int rebind_mapped(const image_t *file, const char *name) {
  if (!file->is_64bit) return 0;
  uint8_t *base = map_image(file);
  if (!base) return fail("the image cannot be mapped");
  image_t live;
  uint64_t header = (uint64_t)(uintptr_t)base + (macho_header_address(file) - file->start);
  if (image_parse_live(&live, header, (uint64_t)(uintptr_t)base - file->start) != 0 ||
      !live.is_macho || live.symtab.size != file->symtab.size ||
      memcmp(live.build_id, file->build_id, sizeof live.build_id) != 0 ||
      live.macho.function_starts.size != file->macho.function_starts.size ||
      live.macho.unwind_info.size != file->macho.unwind_info.size)
    return fail("the live image is not read as its file is");
  int status = rebind(file, &live, name);
  munmap(base, ROUND(file->end - file->start));
  return status;
}

int main(int argc, char **argv) {
  macho_slice_t slices[MACHO_SLICES_MAX];
  image_t file;
  if (argc < 2 || argc > 3 || image_open(&file, argv[1]) != 0) return 2;
  int count = macho_slices(file.mapped, file.mapped_size, slices), status = count ? 0 : 2;
  for (int i = 0; i < count; i++) {
    image_t image = {.file = file.mapped, .file_size = file.mapped_size};
    if (macho_parse_file(&image, &slices[i], NULL) != 0 ||
        (argc == 2 ? print_slots(&image, &slices[i]) : rebind_mapped(&image, argv[2])))
      status = 1;
  }
  image_close(&file);
  return status;
}
