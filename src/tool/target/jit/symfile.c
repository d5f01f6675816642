/* SPDX-License-Identifier: MIT
 *
 * Source: the ELF-64 object file format; GDB's manual, "JIT Compilation Interface". The bytes of
 * the file have no alignment, so each structure is copied.
 */
#include "target/jit/symfile.h"

#include <elf.h>
#include <string.h>

typedef struct symfile {
  const uint8_t *data;
  size_t size;
  Elf64_Ehdr header;
} symfile_t;

static bool copy(const symfile_t *f, uint64_t at, void *out, size_t size) {
  if (at > f->size || size > f->size - at) return false;
  memcpy(out, f->data + at, size);
  return true;
}

static bool read_section(const symfile_t *f, uint32_t number, Elf64_Shdr *out) {
  return number < f->header.e_shnum && f->header.e_shoff <= f->size &&
         copy(f, f->header.e_shoff + (uint64_t)number * sizeof *out, out, sizeof *out);
}

static bool is_elf(symfile_t *f) {
  return copy(f, 0, &f->header, sizeof f->header) &&
         memcmp(f->header.e_ident, ELFMAG, SELFMAG) == 0 &&
         f->header.e_ident[EI_CLASS] == ELFCLASS64 && f->header.e_ident[EI_DATA] == ELFDATA2LSB &&
         f->header.e_shentsize == sizeof(Elf64_Shdr);
}

/* ---- functions ------------------------------------------------------------------------------ */

/* The name at OFFSET of the string table NAMES, and its length; NULL: there is none. */
static const char *name_at(const symfile_t *f, const Elf64_Shdr *names, uint32_t offset,
                           size_t *length) {
  if (names->sh_offset > f->size || names->sh_size > f->size - names->sh_offset ||
      offset >= names->sh_size)
    return NULL;
  const char *name = (const char *)f->data + names->sh_offset + offset;
  const char *end = memchr(name, 0, names->sh_size - offset);
  *length = end ? (size_t)(end - name) : 0;
  return *length ? name : NULL;
}

/* The run-time address of SYMBOL; 0: it is no function, or not in its section. */
static uint64_t address_of(const symfile_t *f, const Elf64_Sym *symbol) {
  Elf64_Shdr section;
  if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_size ||
      symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE ||
      !read_section(f, symbol->st_shndx, &section) || !section.sh_addr)
    return 0;
  bool is_relative = f->header.e_type == ET_REL;
  uint64_t offset = is_relative ? symbol->st_value : symbol->st_value - section.sh_addr;
  if (offset > section.sh_size || symbol->st_size > section.sh_size - offset) return 0;
  return section.sh_addr + offset;
}

static size_t read_table(const symfile_t *f, const Elf64_Shdr *table, jit_t *jit) {
  Elf64_Shdr names;
  Elf64_Sym symbol;
  size_t found = 0;
  if (!read_section(f, table->sh_link, &names)) return 0;
  for (uint64_t at = 0; at < table->sh_size && table->sh_size - at >= sizeof symbol;
       at += sizeof symbol) {
    size_t length;
    if (!copy(f, table->sh_offset + at, &symbol, sizeof symbol)) break;
    uint64_t address = address_of(f, &symbol);
    const char *name = address ? name_at(f, &names, symbol.st_name, &length) : NULL;
    if (!name) continue;
    jit_add(jit, address, symbol.st_size, UINT64_MAX, 0, name, length);
    found++;
  }
  return found;
}

size_t jit_symfile_read(jit_t *jit, const uint8_t *data, size_t size) {
  symfile_t f = {.data = data, .size = size};
  size_t found = 0;
  if (!is_elf(&f)) return 0;
  for (uint32_t i = 1; i < f.header.e_shnum; i++) {
    Elf64_Shdr section;
    if (!read_section(&f, i, &section)) break;
    if (section.sh_type == SHT_SYMTAB && section.sh_offset <= size)
      found += read_table(&f, &section, jit);
  }
  return found;
}

/* ---- the image ------------------------------------------------------------------------------ */

static void add_segment(image_t *image, const Elf64_Shdr *section) {
  if (image->segment_count == IMAGE_SEGMENTS_MAX) return;
  image->segments[image->segment_count++] =
      (segment_t){.address = section->sh_addr, .size = section->sh_size, .flags = PF_R | PF_X};
  uint64_t end = section->sh_addr + section->sh_size;
  if (!image->end || section->sh_addr < image->start) image->start = section->sh_addr;
  if (end > image->end) image->end = end;
}

static bool is_eh_frame(const symfile_t *f, const Elf64_Shdr *names, const Elf64_Shdr *section) {
  static const char wanted[] = ".eh_frame";
  size_t length;
  const char *name = name_at(f, names, section->sh_name, &length);
  return name && length == sizeof wanted - 1 && memcmp(name, wanted, length) == 0;
}

bool jit_symfile_image(const uint8_t *data, size_t size, image_t *out) {
  symfile_t f = {.data = data, .size = size};
  Elf64_Shdr names, section;
  *out = (image_t){.is_64bit = true};
  if (!is_elf(&f) || !read_section(&f, f.header.e_shstrndx, &names)) return false;
  out->machine = f.header.e_machine == EM_AARCH64 ? IMAGE_AARCH64 : IMAGE_X86_64;
  for (uint32_t i = 1; i < f.header.e_shnum && read_section(&f, i, &section); i++) {
    if (!section.sh_addr || !section.sh_size || section.sh_addr + section.sh_size < section.sh_addr)
      continue;
    if (section.sh_flags & SHF_EXECINSTR) add_segment(out, &section);
    if (is_eh_frame(&f, &names, &section))
      out->eh_frame = (section_t){.size = section.sh_size, .address = section.sh_addr};
  }
  return out->segment_count > 0;
}
