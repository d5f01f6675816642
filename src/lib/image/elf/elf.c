/* SPDX-License-Identifier: MIT
 *
 * The ELF parser for live images and for files.
 *
 * The two differ only in how bytes are reached: `copy_offset` and `copy_address` below. In a live
 * image a file offset is relative to the header, and an address gets the slide added. Every read is
 * guarded, since another thread may unload the image meanwhile. In a file an address is translated
 * through the program headers. Reads of a mapped file are guarded, too: if the file is truncated
 * meanwhile, a direct read would raise SIGBUS.
 *
 * Program headers come first, because section headers are absent in memory and in some stripped
 * files. Section headers, in files only, add .symtab, .debug_frame and the exact size of .eh_frame.
 * They also identify a separate debug file, whose program headers describe contents that it does
 * not have (its sections are SHT_NOBITS).
 *
 * Nothing that is read is trusted. Every offset, size and count is compared with the bytes that
 * exist, sums are checked for overflow, and each loop has a bound that is constant or shrinks with
 * the bytes left. An invalid part is skipped. A file is refused only if it is not ELF or if its
 * program headers are unreadable.
 *
 * Sources: System V gABI chapters 4 and 5; LSB Core "Exception Frames" for .eh_frame_hdr; the
 * documentation of DT_GNU_HASH in the binutils sources.
 */
#include <errno.h>

#include "base/bits.h"
#include "image/elf/format.h"
#include "image/image.h"
#include "image/macho/macho.h"
#include "image/window.h"
#include "os/os.h"
#include "sonde/status.h"

#define PHDR_MAX    4096u      /* more program headers than any linker writes */
#define SHDR_MAX    (1u << 20) /* -ffunction-sections objects have some 100,000 */
#define NOTES_MAX   256u
#define DYNAMIC_MAX 1024u

typedef struct elf {
  image_t *image;
  elf_shape_t shape;
  elf_ehdr_t header;
  uint64_t live_header; /* run-time address of the ELF header; 0: this is a file */
  window_t *window;     /* set if the bytes may be unmapped meanwhile */
  bool has_interpreter, has_soname, is_pie;
  uint64_t shdr_count, shstrndx;
} elf_t;

/* ---- reaching bytes ------------------------------------------------------------------------ */

static bool copy_memory(const elf_t *elf, uint64_t address, void *out, size_t size) {
  return window_copy(elf->window, address, out, size);
}

static bool copy_offset(const elf_t *elf, uint64_t offset, void *out, size_t size) {
  if (elf->live_header)
    return offset < UINT32_MAX && copy_memory(elf, elf->live_header + offset, out, size);
  if (offset > elf->image->file_size || size > elf->image->file_size - offset) return false;
  return copy_memory(elf, (uint64_t)(uintptr_t)elf->image->file + offset, out, size);
}

/* Returns the bytes from ADDRESS (as linked) to the end of its segment. */
static bool bytes_at(const elf_t *elf, uint64_t address, section_t *out) {
  const image_t *image = elf->image;
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (address < s->address || address - s->address >= s->file_size || !(s->flags & ELF_PF_R))
      continue;
    uint64_t into = address - s->address, left = s->file_size - into;
    out->address = address;
    out->size = left;
    if (elf->live_header) {
      out->data = (const uint8_t *)(uintptr_t)(address + image->slide);
      return true;
    }
    uint64_t offset = s->file_offset + into; /* checked for overflow when the segment was read */
    if (offset >= image->file_size) return false;
    out->data = image->file + offset;
    if (left > image->file_size - offset) out->size = image->file_size - offset;
    return true;
  }
  return false;
}

static bool copy_address(const elf_t *elf, uint64_t address, void *out, size_t size) {
  section_t at;
  return bytes_at(elf, address, &at) && at.size >= size &&
         copy_memory(elf, (uint64_t)(uintptr_t)at.data, out, size);
}

/* Returns the bytes [ADDRESS, ADDRESS+SIZE), or an empty section if they are not all in one
 * segment. */
static section_t section_at(const elf_t *elf, uint64_t address, uint64_t size) {
  section_t at;
  if (size == 0 || !bytes_at(elf, address, &at) || at.size < size) return (section_t){0};
  at.size = size;
  return at;
}

/* ---- header and program headers ------------------------------------------------------------ */

static image_machine_t machine_of(uint16_t machine, bool is_64bit) {
  switch (machine) {
  case 0: return IMAGE_MACHINE_UNKNOWN;
  case ELF_EM_X86_64: return is_64bit ? IMAGE_X86_64 : IMAGE_OTHER; /* x32 shares the number */
  case ELF_EM_AARCH64: return is_64bit ? IMAGE_AARCH64 : IMAGE_OTHER;
  case ELF_EM_386: return IMAGE_I386;
  case ELF_EM_ARM: return IMAGE_ARMV7;
  default: return IMAGE_OTHER;
  }
}

static int read_header(elf_t *elf) {
  uint8_t raw[ELF_EHDR_MAX] = {0};
  if (!copy_offset(elf, 0, raw, 52)) return elf->live_header ? SONDE_EFAULT : SONDE_EFORMAT;
  if (raw[0] != 0x7f || raw[1] != 'E' || raw[2] != 'L' || raw[3] != 'F') return SONDE_EFORMAT;
  if ((raw[4] != 1 && raw[4] != 2) || (raw[5] != 1 && raw[5] != 2)) return SONDE_EFORMAT;
  elf->shape = (elf_shape_t){.is_64bit = raw[4] == 2, .is_big_endian = raw[5] == 2};
  if (!copy_offset(elf, 0, raw, elf_ehdr_size(elf->shape))) return SONDE_EFORMAT;
  elf->header = elf_ehdr(elf->shape, raw);
  image_t *image = elf->image;
  image->is_64bit = elf->shape.is_64bit;
  image->is_big_endian = elf->shape.is_big_endian;
  image->machine = machine_of(elf->header.machine, image->is_64bit);
  return SONDE_OK;
}

/* Reads section header I. */
static bool read_shdr(const elf_t *elf, uint64_t i, elf_shdr_t *out) {
  uint8_t raw[ELF_SHDR_MAX];
  uint64_t offset;
  if (__builtin_add_overflow(elf->header.shoff, i * elf->header.shentsize, &offset) ||
      !copy_offset(elf, offset, raw, elf_shdr_size(elf->shape)))
    return false;
  *out = elf_shdr(elf->shape, raw);
  return true;
}

/* Counts the section headers. If the number does not fit the ELF header, it is in section 0. */
static void count_sections(elf_t *elf) {
  elf_ehdr_t *h = &elf->header;
  elf_shdr_t zero;
  if (elf->live_header || h->shoff == 0 || h->shentsize < elf_shdr_size(elf->shape) ||
      !read_shdr(elf, 0, &zero))
    return;
  elf->shdr_count = h->shnum ? h->shnum : zero.size;
  elf->shstrndx = h->shstrndx == ELF_SHN_XINDEX ? zero.link : h->shstrndx;
  if (elf->shdr_count > SHDR_MAX) elf->shdr_count = SHDR_MAX;
  uint64_t fit =
      (elf->image->file_size - h->shoff) / h->shentsize; /* shoff is inside the file: it was read */
  if (elf->shdr_count > fit) elf->shdr_count = fit;
}

static uint64_t program_header_count(const elf_t *elf) {
  elf_shdr_t zero;
  uint64_t count = elf->header.phnum;
  if (count == ELF_PN_XNUM && elf->shdr_count > 0 && read_shdr(elf, 0, &zero)) count = zero.info;
  return count < PHDR_MAX ? count : PHDR_MAX;
}

static void take_segment(image_t *image, const elf_phdr_t *p) {
  uint64_t end, file_end;
  if (p->memsz == 0 || __builtin_add_overflow(p->vaddr, p->memsz, &end) ||
      __builtin_add_overflow(p->offset, p->filesz, &file_end))
    return;
  if (image->end == 0 || p->vaddr < image->start) image->start = p->vaddr;
  if (end > image->end) image->end = end;
  if (image->segment_count == IMAGE_SEGMENTS_MAX) return;
  image->segments[image->segment_count++] = (segment_t){
      .address = p->vaddr,
      .size = p->memsz,
      .file_offset = p->offset,
      .file_size = p->filesz < p->memsz ? p->filesz : p->memsz,
      .flags = p->flags,
  };
}

/* Calls VISIT for each program header. Returns false if they are unreadable. */
static bool each_phdr(elf_t *elf, void (*visit)(elf_t *elf, const elf_phdr_t *p)) {
  const elf_ehdr_t *h = &elf->header;
  uint64_t count = program_header_count(elf);
  if (h->phoff == 0 || count == 0) return true;
  if (h->phentsize < elf_phdr_size(elf->shape)) return false;
  for (uint64_t i = 0; i < count; i++) {
    uint8_t raw[ELF_PHDR_MAX];
    uint64_t offset;
    if (__builtin_add_overflow(h->phoff, i * h->phentsize, &offset) ||
        !copy_offset(elf, offset, raw, elf_phdr_size(elf->shape)))
      return false;
    elf_phdr_t p = elf_phdr(elf->shape, raw);
    visit(elf, &p);
  }
  return true;
}

static void visit_load(elf_t *elf, const elf_phdr_t *p) {
  if (p->type == ELF_PT_LOAD) take_segment(elf->image, p);
}

/* ---- build-id ------------------------------------------------------------------------------ */

static void read_notes(elf_t *elf, const section_t *notes, uint64_t align) {
  image_t *image = elf->image;
  uint64_t at = (uint64_t)(uintptr_t)notes->data, size = notes->size;
  uint64_t pos = 0;
  for (unsigned n = 0; n < NOTES_MAX && image->build_id_size == 0; n++) {
    uint8_t head[16];
    if (pos > size || size - pos < sizeof head || !copy_memory(elf, at + pos, head, sizeof head))
      return;
    uint64_t name = elf_u32(elf->shape, head), desc = elf_u32(elf->shape, head + 4);
    uint64_t desc_at = ALIGN_UP(pos + 12 + name, align); /* all terms are below 2^33 + size */
    if (desc_at > size || desc > size - desc_at) return;
    if (elf_u32(elf->shape, head + 8) == ELF_NT_GNU_BUILD_ID && name == 4 &&
        __builtin_memcmp(head + 12, "GNU", 4) == 0 && desc > 0) {
      uint32_t keep = desc < IMAGE_BUILD_ID_MAX ? (uint32_t)desc : IMAGE_BUILD_ID_MAX;
      if (!copy_memory(elf, at + desc_at, image->build_id, keep)) return;
      image->build_id_size = keep;
      image->build_id_address = notes->address ? notes->address + desc_at : 0;
    }
    pos = ALIGN_UP(desc_at + desc, align);
  }
}

static void read_notes_at(elf_t *elf, section_t notes, uint64_t align) {
  if (notes.data && elf->image->build_id_size == 0) read_notes(elf, &notes, align == 8 ? 8 : 4);
}

/* ---- .eh_frame_hdr and .eh_frame ----------------------------------------------------------- */

/* Decodes the pointer to .eh_frame in the header (LSB Core, "DWARF Exception Header Encoding"). */
static bool eh_frame_pointer(const elf_t *elf, const section_t *hdr, const uint8_t raw[12],
                             uint64_t *out) {
  elf_shape_t s = elf->shape;
  uint64_t value;
  switch (raw[1] & 0x0f) {
  case 0x00: value = elf_word(s, raw + 4); break;
  case 0x02: value = elf_u16(s, raw + 4); break;
  case 0x03: value = elf_u32(s, raw + 4); break;
  case 0x04:
  case 0x0c: value = elf_u64(s, raw + 4); break;
  case 0x0a: value = (uint64_t)(int64_t)(int16_t)elf_u16(s, raw + 4); break;
  case 0x0b: value = (uint64_t)(int64_t)(int32_t)elf_u32(s, raw + 4); break;
  default: return false;
  }
  switch (raw[1] & 0xf0) {
  case 0x00: break;
  case 0x10: value += hdr->address + 4; break; /* relative to the field itself */
  case 0x30: value += hdr->address; break;     /* relative to the header */
  default: return false;
  }
  *out = s.is_64bit ? value : (uint32_t)value;
  return true;
}

static void take_eh_frame_hdr(elf_t *elf, const elf_phdr_t *p) {
  image_t *image = elf->image;
  section_t hdr = section_at(elf, p->vaddr, p->filesz);
  uint8_t raw[12];
  uint64_t address;
  if (!hdr.data || hdr.size < sizeof raw || !copy_address(elf, p->vaddr, raw, sizeof raw) ||
      raw[0] != 1)
    return;
  image->eh_frame_hdr = hdr;
  if (eh_frame_pointer(elf, &hdr, raw, &address))
    bytes_at(elf, address, &image->eh_frame); /* to the segment's end: its size is not stored */
}

/* ---- PT_DYNAMIC ---------------------------------------------------------------------------- */

typedef struct dynamic {
  uint64_t symtab, strtab, strsz, syment, hash, gnu_hash;
} dynamic_t;

static void read_dynamic(elf_t *elf, uint64_t address, uint64_t size, dynamic_t *d) {
  unsigned entry = elf_dyn_size(elf->shape);
  uint64_t count = size / entry;
  for (uint64_t i = 0; i < count && i < DYNAMIC_MAX; i++) {
    uint8_t raw[16];
    if (!copy_address(elf, address + i * entry, raw, entry)) return;
    uint64_t tag = elf_word(elf->shape, raw), value = elf_word(elf->shape, raw + entry / 2);
    switch (tag) {
    case ELF_DT_NULL: return;
    case ELF_DT_SYMTAB: d->symtab = value; break;
    case ELF_DT_STRTAB: d->strtab = value; break;
    case ELF_DT_STRSZ: d->strsz = value; break;
    case ELF_DT_SYMENT: d->syment = value; break;
    case ELF_DT_HASH: d->hash = value; break;
    case ELF_DT_GNU_HASH: d->gnu_hash = value; break;
    case ELF_DT_SONAME: elf->has_soname = true; break;
    case ELF_DT_FLAGS_1: elf->is_pie = value & ELF_DF_1_PIE; break;
    default: break;
    }
  }
}

/* The symbol table starts with an all-zero entry and the names with an empty one (gABI ch. 4). */
static bool tables_start_at(const elf_t *elf, uint64_t symtab, uint64_t strtab) {
  uint8_t first[ELF_SYM_MAX], empty;
  unsigned size = elf_sym_size(elf->shape);
  if (!copy_address(elf, symtab, first, size) || !copy_address(elf, strtab, &empty, 1))
    return false;
  for (unsigned i = 0; i < size; i++)
    if (first[i]) return false;
  return empty == 0;
}

/* Finds the run-time addresses of the tables. glibc adds the slide to these values in the mapped
 * table; musl and the vDSO do not. For a prelinked image near its link-time address, both readings
 * may be inside the image. So the contents of the tables decide. */
static bool resolve_tables(const elf_t *elf, dynamic_t *d) {
  uint64_t slide = elf->live_header ? elf->image->slide : 0;
  if (slide && tables_start_at(elf, d->symtab - slide, d->strtab - slide)) {
    d->symtab -= slide;
    d->strtab -= slide;
    d->hash -= d->hash ? slide : 0;
    d->gnu_hash -= d->gnu_hash ? slide : 0;
    return true;
  }
  return tables_start_at(elf, d->symtab, d->strtab);
}

/* The number of symbols by DT_HASH: it has one chain link for each. */
static uint64_t count_by_hash(const elf_t *elf, uint64_t hash) {
  uint8_t raw[16];
  bool wide = elf->shape.is_64bit && elf->header.machine == ELF_EM_S390;
  if (!hash || !copy_address(elf, hash, raw, wide ? 16 : 8)) return 0;
  return wide ? elf_u64(elf->shape, raw + 8) : elf_u32(elf->shape, raw + 4);
}

/* The number of symbols by DT_GNU_HASH, which does not store it: the last symbol ends the chain
 * with the highest start. MOST, the number that fits into the segment, bounds the walk. */
static uint64_t count_by_gnu_hash(const elf_t *elf, uint64_t hash, uint64_t most) {
  uint8_t raw[192];
  if (!hash || !copy_address(elf, hash, raw, 16)) return 0;
  uint32_t buckets = elf_u32(elf->shape, raw), first = elf_u32(elf->shape, raw + 4);
  uint64_t at = hash + 16 + (uint64_t)elf_u32(elf->shape, raw + 8) * (elf->shape.is_64bit ? 8 : 4);
  section_t there;
  if (!bytes_at(elf, at, &there) || there.size / 4 < buckets) return 0;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets;) {
    uint32_t batch = buckets - i < sizeof raw / 4 ? buckets - i : (uint32_t)(sizeof raw / 4);
    if (!copy_address(elf, at + (uint64_t)i * 4, raw, batch * 4)) return 0;
    for (uint32_t k = 0; k < batch; k++) {
      uint32_t v = elf_u32(elf->shape, raw + k * 4);
      last = v > last ? v : last;
    }
    i += batch;
  }
  if (last < first) return first; /* no symbol is defined; undefined symbols come before FIRST */
  uint64_t chains = at + (uint64_t)buckets * 4;
  for (uint64_t i = last; i < most; i++) {
    if (!copy_address(elf, chains + (i - first) * 4, raw, 4)) return 0;
    if (elf_u32(elf->shape, raw) & 1) return i + 1;
  }
  return most;
}

static void take_dynamic_symbols(elf_t *elf, dynamic_t *d) {
  image_t *image = elf->image;
  unsigned entry = elf_sym_size(elf->shape);
  section_t symbols, names;
  if (!d->symtab || !d->strtab || (d->syment && d->syment != entry) || !resolve_tables(elf, d) ||
      !bytes_at(elf, d->symtab, &symbols) || !bytes_at(elf, d->strtab, &names))
    return;
  uint64_t most = symbols.size / entry;
  uint64_t count = count_by_hash(elf, d->hash);
  if (count == 0) count = count_by_gnu_hash(elf, d->gnu_hash, most);
  if (count == 0 && d->strtab > d->symtab) /* linkers place the names right after the symbols */
    count = (d->strtab - d->symtab) / entry;
  symbols.size = (count < most ? count : most) * entry;
  if (d->strsz && d->strsz < names.size) names.size = d->strsz;
  image->dynsym = symbols;
  image->dynsym_names = names;
}

static void take_dynamic(elf_t *elf, const elf_phdr_t *p) {
  dynamic_t d = {0};
  elf->image->dynamic_address = p->vaddr;
  read_dynamic(elf, p->vaddr, p->filesz, &d);
  take_dynamic_symbols(elf, &d);
}

static void visit_rest(elf_t *elf, const elf_phdr_t *p) {
  switch (p->type) {
  case ELF_PT_NOTE: read_notes_at(elf, section_at(elf, p->vaddr, p->filesz), p->align); break;
  case ELF_PT_GNU_EH_FRAME: take_eh_frame_hdr(elf, p); break;
  case ELF_PT_DYNAMIC: take_dynamic(elf, p); break;
  case ELF_PT_INTERP: elf->has_interpreter = true; break;
  default: break;
  }
}

/* ---- section headers: files only ----------------------------------------------------------- */

/* Returns the contents of a section; empty if the file does not hold them uncompressed. */
static section_t section_contents(const elf_t *elf, const elf_shdr_t *s) {
  const image_t *image = elf->image;
  if (s->type == ELF_SHT_NOBITS || s->flags & ELF_SHF_COMPRESSED || s->size == 0 ||
      s->offset > image->file_size || s->size > image->file_size - s->offset)
    return (section_t){0};
  return (section_t){.data = image->file + s->offset, .size = s->size, .address = s->address};
}

static bool section_is_named(const elf_t *elf, const section_t *names, const elf_shdr_t *s,
                             const char *name) {
  size_t length = 0; /* including the final 0; src/lib must not call strlen */
  while (name[length++])
    continue;
  char raw[64];
  if (length > sizeof raw || s->name > names->size || length > names->size - s->name ||
      !copy_memory(elf, (uint64_t)(uintptr_t)names->data + s->name, raw, length))
    return false;
  return __builtin_memcmp(raw, name, length) == 0;
}

static section_t section_names(const elf_t *elf) {
  elf_shdr_t s;
  if (elf->shstrndx >= elf->shdr_count || !read_shdr(elf, elf->shstrndx, &s)) return (section_t){0};
  return section_contents(elf, &s);
}

/* Sets SYMBOLS to section S and NAMES to the section that it links to. */
static bool take_symbols(const elf_t *elf, const elf_shdr_t *s, section_t *symbols,
                         section_t *names) {
  elf_shdr_t linked;
  if (s->link >= elf->shdr_count || !read_shdr(elf, s->link, &linked)) return false;
  section_t table = section_contents(elf, s), strings = section_contents(elf, &linked);
  if (!table.data || !strings.data) return false;
  table.size -= table.size % elf_sym_size(elf->shape);
  *symbols = table;
  *names = strings;
  return true;
}

static void take_section(elf_t *elf, const section_t *names, const elf_shdr_t *s) {
  image_t *image = elf->image;
  switch (s->type) {
  case ELF_SHT_SYMTAB: take_symbols(elf, s, &image->symtab, &image->symtab_names); return;
  case ELF_SHT_DYNSYM: take_symbols(elf, s, &image->dynsym, &image->dynsym_names); return;
  case ELF_SHT_NOTE: read_notes_at(elf, section_contents(elf, s), 4); return;
  default: break;
  }
  if (section_is_named(elf, names, s, ".eh_frame"))
    image->eh_frame = section_contents(elf, s);
  else if (section_is_named(elf, names, s, ".eh_frame_hdr"))
    image->eh_frame_hdr = section_contents(elf, s);
  else if (section_is_named(elf, names, s, ".dynsym")) /* of another type: in a debug file */
    image->dynsym = image->dynsym_names = (section_t){0};
  else if (section_is_named(elf, names, s, ".debug_frame"))
    image->debug_frame = section_contents(elf, s);
}

static void read_sections(elf_t *elf) {
  section_t names = section_names(elf);
  for (uint64_t i = 1; i < elf->shdr_count; i++) {
    elf_shdr_t s;
    if (read_shdr(elf, i, &s)) take_section(elf, &names, &s);
  }
}

bool image_section(const image_t *image, const char *name, section_t *out) {
  if (image->is_macho) return macho_section_named(image, name, out);
  image_t scratch = *image;
  window_t window = {.size = 0};
  elf_t elf = {.image = &scratch, .window = &window};
  if (!image->file || read_header(&elf) != SONDE_OK) return false;
  count_sections(&elf);
  section_t names = section_names(&elf);
  for (uint64_t i = 1; names.data && i < elf.shdr_count; i++) {
    elf_shdr_t s;
    if (!read_shdr(&elf, i, &s) || !section_is_named(&elf, &names, &s, name)) continue;
    *out = section_contents(&elf, &s);
    return out->data != NULL;
  }
  return false;
}

/* ---- entry points -----------------------------------------------------------------------------
 */

static int parse(elf_t *elf) {
  image_t *image = elf->image;
  int status = read_header(elf);
  if (status != SONDE_OK) return status;
  count_sections(elf);
  if (!each_phdr(elf, visit_load) || !each_phdr(elf, visit_rest)) return SONDE_EFORMAT;
  if (elf->live_header && image->segment_count == 0) return SONDE_EFORMAT;
  read_sections(elf);
  image->start += image->slide;
  image->end += image->slide;
  image->entry = elf->header.entry;
  bool started = elf->header.entry != 0 && elf->has_interpreter && !elf->has_soname;
  image->is_executable =
      elf->header.type == ELF_ET_EXEC || elf->is_pie || (elf->header.type == ELF_ET_DYN && started);
  return SONDE_OK;
}

int image_parse_live(image_t *image, uint64_t header, uint64_t slide) {
  *image = (image_t){.slide = slide};
  window_t window = {.size = 0};
  elf_t elf = {.image = image, .live_header = header, .window = &window};
  if (!header) return SONDE_EINVAL;
  int status = parse(&elf);
  return status == SONDE_EFORMAT ? macho_parse(image, header, &window) : status;
}

/* Parses IMAGE->file. For a fat file, parses its first slice. */
static int parse_file(image_t *image, window_t *window) {
  elf_t elf = {.image = image, .window = window};
  int status = parse(&elf);
  return status == SONDE_EFORMAT ? macho_parse_file(image, NULL, window) : status;
}

int image_parse_bytes(image_t *image, const uint8_t *data, uint64_t size) {
  *image = (image_t){.file = data, .file_size = size};
  return parse_file(image, NULL);
}

int image_open(image_t *image, const char *path) {
  *image = (image_t){0};
  const void *data;
  uint64_t size;
  int error = os_map_file(path, &data, &size);
  if (error) return error == -ENOMEM ? SONDE_ENOMEM : SONDE_EIO;
  image->file = image->mapped = data;
  image->file_size = image->mapped_size = size;
  window_t window = {.size = 0};
  int status = parse_file(image, &window);
  if (status != SONDE_OK) image_close(image);
  return status;
}

void image_close(image_t *image) {
  if (image->mapped) os_unmap((void *)(uintptr_t)image->mapped, image->mapped_size);
  *image = (image_t){0};
}
