/* SPDX-License-Identifier: MIT */
#include "symbol/elf/variables.h"

#include <gelf.h>

static Elf_Scn *find_symbols(Elf *elf, GElf_Shdr *header) {
  Elf_Scn *section = NULL, *found = NULL;
  GElf_Shdr each;
  while ((section = elf_nextscn(elf, section))) {
    if (!gelf_getshdr(section, &each) || !each.sh_entsize) continue;
    if (each.sh_type != SHT_SYMTAB && (found || each.sh_type != SHT_DYNSYM)) continue;
    *header = each;
    found = section;
    if (each.sh_type == SHT_SYMTAB) break; /* .dynsym has only exported variables */
  }
  return found;
}

static const char *find_in(Elf *elf, uint64_t address, uint64_t *offset) {
  GElf_Shdr header;
  Elf_Scn *section = elf ? find_symbols(elf, &header) : NULL;
  Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
  size_t count = data ? data->d_size / header.sh_entsize : 0;
  for (size_t i = 1; i < count && i < INT32_MAX; i++) {
    GElf_Sym sym;
    if (!gelf_getsym(data, (int)i, &sym) || GELF_ST_TYPE(sym.st_info) != STT_OBJECT ||
        sym.st_shndx == SHN_UNDEF || address - sym.st_value >= sym.st_size)
      continue;
    *offset = address - sym.st_value;
    return elf_strptr(elf, header.sh_link, sym.st_name);
  }
  return NULL;
}

const char *variable_at(const sources_t *s, uint64_t address, uint64_t *offset) {
  const char *name = find_in(s->debug.elf, address - s->bias, offset);
  return name ? name : find_in(s->image.elf, address, offset);
}
