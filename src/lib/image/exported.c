/* SPDX-License-Identifier: MIT */
#include "image/exported.h"

#include "image/elf/format.h"

/* Offsets in an Elf64_Sym. */
enum { SYMBOL_NAME = 0, SYMBOL_SECTION = 6, SYMBOL_VALUE = 8, SYMBOL_SIZE = 16, SYMBOL_BYTES = 24 };

/* Whether NAMES has NAME at AT. */
static bool is_name(const section_t *names, uint64_t at, const char *name) {
  for (;; at++, name++) {
    if (at >= names->size || names->data[at] != (uint8_t)*name) return false;
    if (!*name) return true;
  }
}

static bool find_in(const image_t *image, const section_t *symbols, const section_t *names,
                    exported_t *wanted, int count) {
  const elf_shape_t shape = {.is_64bit = true};
  for (int i = 0; i < count; i++)
    wanted[i].address = wanted[i].size = 0;
  if (image->is_macho || !image->is_64bit || image->is_big_endian || !symbols->data) return false;
  for (uint64_t at = 0; at + SYMBOL_BYTES <= symbols->size; at += SYMBOL_BYTES) {
    const uint8_t *symbol = symbols->data + at;
    uint32_t name = elf_u32(shape, symbol + SYMBOL_NAME);
    if (elf_u16(shape, symbol + SYMBOL_SECTION) == ELF_SHN_UNDEF) continue;
    for (int i = 0; i < count; i++) {
      if (!is_name(names, name, wanted[i].name)) continue;
      wanted[i].address = elf_u64(shape, symbol + SYMBOL_VALUE) + image->slide;
      wanted[i].size = elf_u64(shape, symbol + SYMBOL_SIZE);
    }
  }
  return true;
}

bool image_find_exported(const image_t *image, exported_t *wanted, int count) {
  return find_in(image, &image->dynsym, &image->dynsym_names, wanted, count);
}

bool image_find_defined(const image_t *image, exported_t *wanted, int count) {
  return find_in(image, &image->symtab, &image->symtab_names, wanted, count);
}
