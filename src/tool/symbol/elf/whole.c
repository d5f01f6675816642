/* SPDX-License-Identifier: MIT
 *
 * What the headers promise against what the file holds. libelf itself drops a table that does not
 * fit without a word, so the file header's own numbers are compared.
 *
 * Section headers stand at the end of what linkers write, so nearly every cut is seen there.
 * Segments are asked only where there are no section headers: eu-strip's debug files keep the
 * program headers of the image they came from, whose bytes they do not have.
 */
#include "symbol/elf/whole.h"

#include <gelf.h>

static bool is_inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

/* More than 65279 sections: the count stands in the first one, which libelf has then read. */
static bool section_table_is_inside(Elf *elf, const GElf_Ehdr *header, uint64_t size) {
  size_t count = header->e_shnum;
  if (!count && is_inside(header->e_shoff, header->e_shentsize, size) &&
      elf_getshdrnum(elf, &count) != 0)
    return false;
  if (!count) count = 1;
  return is_inside(header->e_shoff, (uint64_t)count * header->e_shentsize, size);
}

static bool sections_are_inside(Elf *elf, uint64_t size) {
  Elf_Scn *section = NULL;
  GElf_Shdr header;
  while ((section = elf_nextscn(elf, section)))
    if (gelf_getshdr(section, &header) && header.sh_type != SHT_NOBITS &&
        header.sh_type != SHT_NULL && !is_inside(header.sh_offset, header.sh_size, size))
      return false;
  return true;
}

static bool segments_are_inside(Elf *elf, uint64_t size) {
  GElf_Phdr header;
  size_t count;
  if (elf_getphdrnum(elf, &count) != 0) return false;
  for (size_t i = 0; i < count && i < INT32_MAX; i++)
    if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_LOAD &&
        !is_inside(header.p_offset, header.p_filesz, size))
      return false;
  return true;
}

symbol_reason_t whole_check(Elf *elf, uint64_t size) {
  GElf_Ehdr header;
  if (!gelf_getehdr(elf, &header)) return SYMBOL_BAD_FILE;
  if (!header.e_phnum && !header.e_shoff) return SYMBOL_BAD_FILE;
  if (!is_inside(header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize, size))
    return SYMBOL_TRUNCATED;
  bool inside = header.e_shoff
                    ? section_table_is_inside(elf, &header, size) && sections_are_inside(elf, size)
                    : segments_are_inside(elf, size);
  return inside ? SYMBOL_NAMED : SYMBOL_TRUNCATED;
}
