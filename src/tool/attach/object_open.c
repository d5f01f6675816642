/* SPDX-License-Identifier: MIT
 *
 * Reads sections with libelf, which checks their bounds, and checks all addresses against the
 * image. Relocation types: the psABI of each CPU, "Relocation".
 */
#define _GNU_SOURCE
#include "attach/object.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"

#define IMAGE_BYTES_MAX (UINT64_C(256) << 20)
#define ENTRY_NAME      "sonde_attach_run"

#if defined(__x86_64__)
enum {
  MACHINE = EM_X86_64,
  RELATIVE = R_X86_64_RELATIVE,
  ABSOLUTE = R_X86_64_64,
  GLOBAL_DATA = R_X86_64_GLOB_DAT,
  JUMP_SLOT = R_X86_64_JUMP_SLOT
};
#else
enum {
  MACHINE = EM_AARCH64,
  RELATIVE = R_AARCH64_RELATIVE,
  ABSOLUTE = R_AARCH64_ABS64,
  GLOBAL_DATA = R_AARCH64_GLOB_DAT,
  JUMP_SLOT = R_AARCH64_JUMP_SLOT
};
#endif

typedef struct reader {
  object_t *object;
  const char *path;
  problem_t *problem;
  Elf *elf;
  uint64_t page;
} reader_t;

static bool refuse(const reader_t *r, const char *why) {
  problem_set(r->problem, "cannot load '%s' into a running program: %s", r->path, why);
  return false;
}

/* What libelf says, or that the file is not whole. */
static bool refuse_file(const reader_t *r) {
  const char *why = elf_errmsg(0);
  return refuse(r, why ? why : "it is truncated or damaged");
}

static uint64_t page_down(const reader_t *r, uint64_t at) { return at & ~(r->page - 1); }
static uint64_t page_up(const reader_t *r, uint64_t at) { return page_down(r, at + r->page - 1); }

static bool is_inside(const object_t *object, uint64_t at, uint64_t size) {
  return at <= object->size && size <= object->size - at;
}

static bool is_filled(const object_t *object, uint64_t at, uint64_t size) {
  return at <= object->filled && size <= object->filled - at;
}

/* ---- segments ----------------------------------------------------------------------------- */

static bool add_segment(const reader_t *r, uint64_t start, uint64_t end, int protection) {
  object_t *o = r->object;
  if (end <= start) return true;
  if (o->segment_count == OBJECT_SEGMENTS_MAX) return refuse(r, "it has too many segments");
  o->segments[o->segment_count++] = (object_segment_t){start, end, protection};
  return true;
}

static int protection_of(const GElf_Phdr *header) {
  return (header->p_flags & PF_R ? PROT_READ : 0) | (header->p_flags & PF_W ? PROT_WRITE : 0) |
         (header->p_flags & PF_X ? PROT_EXEC : 0);
}

static bool copy_segment(const reader_t *r, const GElf_Phdr *header) {
  object_t *o = r->object;
  size_t file_size;
  const char *file = elf_rawfile(r->elf, &file_size);
  if (header->p_offset > file_size || header->p_filesz > file_size - header->p_offset ||
      !is_filled(o, header->p_vaddr, header->p_filesz))
    return refuse(r, "it is truncated or damaged");
  if ((header->p_flags & PF_W) && (header->p_flags & PF_X))
    return refuse(r, "a segment is writable and executable");
  memcpy(o->image + header->p_vaddr, file + header->p_offset, header->p_filesz);
  return add_segment(r, page_down(r, header->p_vaddr),
                     page_up(r, header->p_vaddr + header->p_memsz), protection_of(header));
}

/* The size of the object: to the end of the last segment. The size of its image: to the last byte
 * that the file has, in whole pages. */
static bool find_sizes(const reader_t *r, size_t count) {
  GElf_Phdr header;
  for (size_t i = 0; i < count; i++) {
    if (!gelf_getphdr(r->elf, (int)i, &header)) return refuse_file(r);
    if (header.p_type == PT_TLS) return refuse(r, "it has thread-local storage");
    if (header.p_type != PT_LOAD) continue;
    if (header.p_vaddr > IMAGE_BYTES_MAX || header.p_memsz > IMAGE_BYTES_MAX)
      return refuse(r, "it is too large");
    if (header.p_filesz > header.p_memsz) return refuse(r, "it is truncated or damaged");
    uint64_t end = page_up(r, header.p_vaddr + header.p_memsz);
    uint64_t filled = page_up(r, header.p_vaddr + header.p_filesz);
    if (r->object->size < end) r->object->size = end;
    if (r->object->filled < filled) r->object->filled = filled;
  }
  return r->object->filled > 0 || refuse(r, "it has no segments");
}

static bool read_segments(const reader_t *r) {
  size_t count;
  GElf_Phdr header;
  if (elf_getphdrnum(r->elf, &count) != 0) return refuse_file(r);
  if (!find_sizes(r, count)) return false;
  r->object->image = calloc(1, r->object->filled);
  if (!r->object->image) return refuse(r, "out of memory");
  for (size_t i = 0; i < count; i++)
    if (gelf_getphdr(r->elf, (int)i, &header) && header.p_type == PT_LOAD &&
        !copy_segment(r, &header))
      return false;
  /* Its end is rounded down: what follows on the same page stays writable. */
  for (size_t i = 0; i < count; i++)
    if (gelf_getphdr(r->elf, (int)i, &header) && header.p_type == PT_GNU_RELRO &&
        is_inside(r->object, header.p_vaddr, header.p_memsz) &&
        !add_segment(r, page_down(r, header.p_vaddr), page_down(r, header.p_vaddr + header.p_memsz),
                     PROT_READ))
      return false;
  return true;
}

/* ---- symbols and relocations -------------------------------------------------------------- */

static bool read_symbols(const reader_t *r, Elf_Data *data, const GElf_Shdr *section) {
  GElf_Sym symbol;
  for (int i = 1; gelf_getsym(data, i, &symbol); i++) {
    const char *name = elf_strptr(r->elf, section->sh_link, symbol.st_name);
    if (symbol.st_shndx == SHN_UNDEF && GELF_ST_BIND(symbol.st_info) != STB_WEAK) {
      problem_set(r->problem, "cannot load '%s' into a running program: symbol %s is undefined",
                  r->path, name ? name : "?");
      return false;
    }
    if (name && symbol.st_shndx != SHN_UNDEF && strcmp(name, ENTRY_NAME) == 0)
      r->object->entry = symbol.st_value;
  }
  return true;
}

/* The value of a relocation, relative to the image. False if its type is not supported. */
static bool value_of(const GElf_Rela *rela, Elf_Data *symbols, uint64_t *value) {
  GElf_Sym symbol;
  switch (GELF_R_TYPE(rela->r_info)) {
  case RELATIVE: *value = (uint64_t)rela->r_addend; return true;
  case ABSOLUTE:
  case GLOBAL_DATA:
  case JUMP_SLOT: break;
  default: return false;
  }
  if (!symbols || !gelf_getsym(symbols, (int)GELF_R_SYM(rela->r_info), &symbol) ||
      GELF_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC || symbol.st_shndx == SHN_ABS)
    return false;
  *value = symbol.st_shndx == SHN_UNDEF ? UINT64_MAX : symbol.st_value + (uint64_t)rela->r_addend;
  return true;
}

static bool read_relocations(const reader_t *r, Elf_Data *data, Elf_Data *symbols) {
  object_t *o = r->object;
  GElf_Rela rela;
  uint64_t value;
  for (int i = 0; gelf_getrela(data, i, &rela); i++) {
    if (!is_filled(o, rela.r_offset, 8) || !value_of(&rela, symbols, &value))
      return refuse(r, "it has a relocation that only a loader can apply");
    if (value == UINT64_MAX) continue; /* a weak symbol that nobody defines: 0 */
    if (!ARRAY_RESERVE(o->relocations, o->relocation_count + 2, o->relocation_capacity))
      return refuse(r, "out of memory");
    o->relocations[o->relocation_count++] = rela.r_offset;
    o->relocations[o->relocation_count++] = value;
  }
  return true;
}

static bool read_dynamic(const reader_t *r, Elf_Data *data) {
  object_t *o = r->object;
  GElf_Dyn entry;
  for (int i = 0; gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++) {
    if (entry.d_tag == DT_NEEDED) return refuse(r, "it depends on another library");
    if (entry.d_tag == DT_INIT || entry.d_tag == DT_RELR)
      return refuse(r, "it has a form of start that only a loader knows");
    if (entry.d_tag == DT_INIT_ARRAY) o->init_start = entry.d_un.d_val;
    if (entry.d_tag == DT_INIT_ARRAYSZ) o->init_end = entry.d_un.d_val;
  }
  if (!is_inside(o, o->init_start, o->init_end) || o->init_end % 8)
    return refuse(r, "it is truncated or damaged");
  o->init_end += o->init_start;
  return true;
}

static void read_notes(const reader_t *r, Elf_Data *data, const GElf_Shdr *section) {
  object_t *o = r->object;
  GElf_Nhdr note;
  size_t at = 0, name, description;
  while ((at = gelf_getnote(data, at, &note, &name, &description)) > 0) {
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || note.n_descsz == 0 ||
        note.n_descsz > OBJECT_BUILD_ID_MAX || memcmp((char *)data->d_buf + name, "GNU", 4) != 0 ||
        !is_inside(o, section->sh_addr + description, note.n_descsz))
      continue;
    o->build_id_at = section->sh_addr + description;
    o->build_id_size = note.n_descsz;
    memcpy(o->build_id, (char *)data->d_buf + description, note.n_descsz);
  }
}

/* Reads the sections of TYPE. The symbols must be read before the relocations. */
static bool read_sections(const reader_t *r, unsigned type, Elf_Data **symbols) {
  Elf_Scn *section = NULL;
  GElf_Shdr header;
  while ((section = elf_nextscn(r->elf, section))) {
    if (!gelf_getshdr(section, &header)) return refuse_file(r);
    if (header.sh_type != type || !(header.sh_flags & SHF_ALLOC)) continue;
    Elf_Data *data = elf_getdata(section, NULL);
    if (!data) return refuse_file(r);
    if (type == SHT_DYNSYM) *symbols = data;
    if (type == SHT_NOTE) read_notes(r, data, &header);
    if (type == SHT_DYNSYM && !read_symbols(r, data, &header)) return false;
    if (type == SHT_RELA && !read_relocations(r, data, *symbols)) return false;
    if (type == SHT_DYNAMIC && !read_dynamic(r, data)) return false;
  }
  return true;
}

static bool read_object(const reader_t *r) {
  GElf_Ehdr header;
  Elf_Data *symbols = NULL;
  if (!gelf_getehdr(r->elf, &header) || header.e_type != ET_DYN ||
      gelf_getclass(r->elf) != ELFCLASS64 || header.e_machine != MACHINE)
    return refuse(r, "it is not a shared object for this CPU");
  static const unsigned types[] = {SHT_DYNAMIC, SHT_DYNSYM, SHT_RELA, SHT_NOTE};
  if (!read_segments(r)) return false;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!read_sections(r, types[i], &symbols)) return false;
  if (r->object->entry == 0 || !is_inside(r->object, r->object->entry, 1))
    return refuse(r, "it does not export " ENTRY_NAME);
  return true;
}

bool object_open(object_t *object, const char *path, problem_t *problem) {
  memset(object, 0, sizeof *object);
  reader_t r = {object, path, problem, NULL, (uint64_t)sysconf(_SC_PAGESIZE)};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return refuse(&r, strerror(errno));
  (void)elf_version(EV_CURRENT);
  r.elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
  bool is_elf = r.elf && elf_kind(r.elf) == ELF_K_ELF;
  bool ok = is_elf ? read_object(&r) : refuse(&r, "it is not an ELF file");
  if (r.elf) elf_end(r.elf);
  close(fd);
  if (!ok) object_close(object);
  return ok;
}
