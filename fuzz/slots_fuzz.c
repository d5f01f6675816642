/* SPDX-License-Identifier: MIT
 *
 * Import slots of a loaded image. The input is one segment of the image's memory, with a dynamic
 * section at the offset in its first two bytes. All slots found must lie in that memory.
 *
 *   bytes 0, 1   where the dynamic section is
 *   byte 2       bit 0: its pointers are as in the file; else as in memory, relocated by glibc
 */
#include <stdlib.h>
#include <string.h>

#include "image/import_slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct found {
  const import_slots_t *slots;
  uint64_t start, end;
  uint32_t count;
} found_t;

static void check_text(const found_t *f, const char *text) {
  uint64_t at = (uint64_t)(uintptr_t)text;
  if (at < f->start || at >= f->end) __builtin_trap();
  if (at + strlen(text) >= f->end) __builtin_trap();
}

static bool look(const slot_t *slot, void *context) {
  found_t *f = context;
  if (slot->address % 8 || slot->address < f->start || slot->address + 8 > f->end) __builtin_trap();
  check_text(f, slot->name);
  bool hidden;
  const char *version = import_slots_version(f->slots, slot->symbol, &hidden);
  if (version) check_text(f, version);
  uint32_t number;
  elf_sym_t sym;
  if (import_slots_definition(f->slots, slot->name, version, &number, &sym) && number == 0)
    __builtin_trap();
  return ++f->count < 300;
}

/* struct Elf64_Phdr, of which 56 bytes are read. */
static void put_phdr(uint8_t *out, uint32_t type, uint64_t address, uint64_t size) {
  const uint32_t kind[2] = {type, 6};
  const uint64_t rest[6] = {0, address, address, size, size, 8};
  memcpy(out, kind, sizeof kind);
  memcpy(out + 8, rest, sizeof rest);
}

static void relocate(uint8_t *memory, size_t size, size_t dynamic) {
  for (size_t at = dynamic; at + 16 <= size; at += 16) {
    uint64_t value;
    memcpy(&value, memory + at + 8, 8);
    if (value >= size) continue;
    value += (uint64_t)(uintptr_t)memory;
    memcpy(memory + at + 8, &value, 8);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3 || size > 1u << 16) return 0;
  size_t dynamic = data[0] | (size_t)data[1] << 8;
  bool of_file = data[2] & 1;
  size -= 3;
  uint8_t *memory = aligned_alloc(16, (size + 15) & ~(size_t)15), phdrs[2 * 56];
  if (!memory) return 0;
  memcpy(memory, data + 3, size);
  if (!of_file) relocate(memory, size, dynamic);
  put_phdr(phdrs, 1, 0, size);            /* PT_LOAD */
  put_phdr(phdrs + 56, 2, dynamic, size); /* PT_DYNAMIC */
  uint64_t start = (uint64_t)(uintptr_t)memory;
  os_image_t image = {.start = start,
                      .end = start + size,
                      .slide = start,
                      .phdr = (uint64_t)(uintptr_t)phdrs,
                      .phdr_count = 2};
  import_slots_t slots;
  if (import_slots_read(&slots, &image)) {
    found_t f = {&slots, start, start + size, 0};
    import_slots_each(&slots, NULL, look, &f);
    slot_names_t names = {{0}};
    slot_names_add(&names, "malloc");
    import_slots_each(&slots, &names, look, &f);
    uint32_t number;
    elf_sym_t sym;
    (void)import_slots_definition(&slots, "malloc", NULL, &number, &sym);
    (void)import_slots_definition(&slots, "malloc", "GLIBC_2.2.5", &number, &sym);
  }
  free(memory);
  return 0;
}
