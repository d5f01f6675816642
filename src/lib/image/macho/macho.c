/* SPDX-License-Identifier: MIT
 *
 * The Mach-O parser for live images and for files, fat or thin, of either width and byte order.
 *
 * The load commands lead to all other parts. In a file their offsets are relative to the start of
 * the slice. In a live image the same offsets are translated through the segments: dyld maps each
 * segment of the file, including __LINKEDIT with the symbol tables, at its linked address plus the
 * slide. In the shared cache of Apple's systems all images share one __LINKEDIT, and offsets are
 * those of the cache; the same translation applies.
 *
 * As in elf/elf.c, nothing is trusted: each offset and size is compared with the bytes that exist,
 * and an invalid command is skipped. A file is refused only if its header or list of commands is
 * unreadable.
 */
#include "image/macho/macho.h"

#include "base/bits.h"
#include "image/macho/format.h"
#include "sonde/status.h"

#define COMMANDS_MAX 16384u /* more than any linker writes; their size is bounded, too */

typedef struct macho {
  image_t *image;
  elf_shape_t shape;
  window_t *window;
  uint32_t symbol_offset, symbol_count, string_offset, string_size;
  uint32_t indirect_offset, indirect_count;
  struct {
    uint32_t offset, size;
  } starts, exports, binds, weak, lazy, chained;
  uint64_t entry_offset;
  uint64_t uuid_at; /* in the load commands */
  bool has_entry_offset;
} macho_t;

/* ---- slices -------------------------------------------------------------------------------- */

static image_machine_t machine_of(uint32_t cpu) {
  switch (cpu) {
  case MACHO_CPU_X86_64: return IMAGE_X86_64;
  case MACHO_CPU_ARM64: return IMAGE_AARCH64;
  case MACHO_CPU_I386: return IMAGE_I386;
  case MACHO_CPU_ARM: return IMAGE_ARMV7;
  case MACHO_CPU_ARM64_32: return IMAGE_ARM64_32;
  default: return IMAGE_OTHER;
  }
}

static bool read_magic(const uint8_t *p, elf_shape_t *shape) {
  for (int big = 0; big < 2; big++) {
    uint32_t magic = elf_u32(macho_shape(true, big), p);
    if (magic != MACHO_MAGIC_32 && magic != MACHO_MAGIC_64) continue;
    *shape = macho_shape(magic == MACHO_MAGIC_64, big);
    return true;
  }
  return false;
}

static int fat_slices(const uint8_t *file, uint64_t size, bool wide, macho_slice_t *out,
                      window_t *window) {
  const elf_shape_t big = {.is_64bit = wide, .is_big_endian = true};
  uint8_t raw[32];
  unsigned entry = wide ? 32 : 20;
  if (!window_copy(window, (uintptr_t)file, raw, 8)) return 0;
  uint32_t count = elf_u32(big, raw + 4);
  int found = 0;
  if (count > MACHO_SLICES_MAX)
    return 0; /* a Java class file has the same magic and at least 45 here */
  for (uint32_t i = 0; i < count && 8 + (uint64_t)(i + 1) * entry <= size; i++) {
    if (!window_copy(window, (uintptr_t)file + 8 + (uint64_t)i * entry, raw, entry)) break;
    uint32_t cpu = elf_u32(big, raw), subtype = elf_u32(big, raw + 4) & MACHO_SUBTYPE_MASK;
    macho_slice_t slice = {.offset = elf_word(big, raw + 8),
                           .size = elf_word(big, raw + (wide ? 16 : 12)),
                           .machine = machine_of(cpu),
                           .is_arm64e = cpu == MACHO_CPU_ARM64 && subtype == MACHO_SUBTYPE_ARM64E};
    if (slice.size < 32) continue;
    if (slice.offset > size) slice.offset = size;
    slice.is_cut = slice.size > size - slice.offset;
    if (slice.is_cut) slice.size = size - slice.offset;
    out[found++] = slice;
  }
  return found;
}

static int slices_of(const uint8_t *file, uint64_t size, macho_slice_t *out, window_t *window) {
  uint8_t raw[12];
  elf_shape_t shape;
  if (size < 32 || !window_copy(window, (uintptr_t)file, raw, sizeof raw)) return 0;
  uint32_t magic = elf_u32((elf_shape_t){.is_big_endian = true}, raw);
  if (magic == MACHO_FAT_MAGIC || magic == MACHO_FAT_MAGIC_64)
    return fat_slices(file, size, magic == MACHO_FAT_MAGIC_64, out, window);
  if (!read_magic(raw, &shape)) return 0;
  uint32_t cpu = elf_u32(shape, raw + 4), subtype = elf_u32(shape, raw + 8) & MACHO_SUBTYPE_MASK;
  *out = (macho_slice_t){.size = size,
                         .machine = machine_of(cpu),
                         .is_arm64e = cpu == MACHO_CPU_ARM64 && subtype == MACHO_SUBTYPE_ARM64E};
  return 1;
}

int macho_slices(const uint8_t *file, uint64_t size, macho_slice_t *out) {
  return slices_of(file, size, out, NULL);
}

/* ---- reaching bytes ------------------------------------------------------------------------ */

section_t macho_bytes(const image_t *image, uint64_t offset, uint64_t size) {
  if (size == 0) return (section_t){0};
  if (image->file) {
    if (offset > image->file_size || size > image->file_size - offset) return (section_t){0};
    return (section_t){.data = image->file + offset, .size = size};
  }
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (offset < s->file_offset || offset - s->file_offset > s->file_size ||
        size > s->file_size - (offset - s->file_offset) || !(s->flags & ELF_PF_R))
      continue;
    uint64_t address = s->address + (offset - s->file_offset);
    return (section_t){.data = (const uint8_t *)(uintptr_t)(address + image->slide),
                       .size = size,
                       .address = address};
  }
  return (section_t){0};
}

/* Copies the bytes of a load command. */
static bool copy_command(const image_t *image, window_t *window, uint64_t at, void *out,
                         size_t size) {
  const section_t *commands = &image->macho.commands;
  return at <= commands->size && size <= commands->size - at &&
         window_copy(window, (uintptr_t)commands->data + at, out, size);
}

/* The window for guarded reads of this image, or NULL. */
static window_t *guard_of(const image_t *image, window_t *window) {
  window->address = window->size = 0;
  return image->file && !image->mapped ? NULL : window;
}

/* ---- segments and sections ----------------------------------------------------------------- */

/* VM_PROT_READ, WRITE, EXECUTE are 1, 2, 4. */
static uint32_t flags_of(uint32_t protection) {
  return (protection & 1 ? ELF_PF_R : 0) | (protection & 2 ? 2u : 0) |
         (protection & 4 ? ELF_PF_X : 0);
}

static void take_segment(macho_t *m, const uint8_t *raw) {
  image_t *image = m->image;
  elf_shape_t s = m->shape;
  unsigned w = s.is_64bit ? 8 : 4;
  segment_t segment = {.address = elf_word(s, raw + 24),
                       .size = elf_word(s, raw + 24 + w),
                       .file_offset = elf_word(s, raw + 24 + 2 * w),
                       .file_size = elf_word(s, raw + 24 + 3 * w)};
  const uint8_t *tail = raw + 24 + 4 * w;
  uint64_t end, file_end;
  segment.flags = flags_of(elf_u32(s, tail + 4));
  segment.is_const = elf_u32(s, tail + 12) & MACHO_SG_READ_ONLY;
  if (segment.size == 0 || __builtin_add_overflow(segment.address, segment.size, &end) ||
      __builtin_add_overflow(segment.file_offset, segment.file_size, &file_end))
    return;
  if (segment.flags == 0 && segment.file_size == 0) return; /* __PAGEZERO */
  if (segment.file_size > segment.size) segment.file_size = segment.size;
  bool is_dwarf = __builtin_memcmp(raw + 8, "__DWARF", 8) == 0; /* never mapped */
  if (!is_dwarf && (image->end == 0 || segment.address < image->start))
    image->start = segment.address;
  if (!is_dwarf && end > image->end) image->end = end;
  if (image->segment_count < IMAGE_SEGMENTS_MAX) image->segments[image->segment_count++] = segment;
}

static bool is_segment(uint32_t command) {
  return command == MACHO_LC_SEGMENT || command == MACHO_LC_SEGMENT_64;
}

/* Reads the head of the command at AT. Returns false if it or its size is invalid. */
static bool read_head(const image_t *image, window_t *window, uint64_t at, uint32_t *command,
                      uint32_t *size) {
  uint8_t raw[8];
  elf_shape_t s = {image->is_64bit, image->is_big_endian};
  if (!copy_command(image, window, at, raw, sizeof raw)) return false;
  *command = elf_u32(s, raw);
  *size = elf_u32(s, raw + 4);
  return *size >= 8 && *size <= image->macho.commands.size - at;
}

/* Advances to the next command that has sections. */
static bool enter_segment(const image_t *image, window_t *window, macho_sections_t *walk) {
  elf_shape_t s = {image->is_64bit, image->is_big_endian};
  unsigned head = macho_segment_size(s);
  while (walk->command < image->macho.command_count) {
    uint32_t command, size;
    uint8_t raw[8];
    uint64_t at = walk->at;
    if (!read_head(image, window, at, &command, &size)) return false;
    walk->command++;
    walk->at += size;
    if (command != (s.is_64bit ? MACHO_LC_SEGMENT_64 : MACHO_LC_SEGMENT) || size < head ||
        !copy_command(image, window, at + head - 8, raw, 8))
      continue;
    uint32_t count = elf_u32(s, raw), fit = (size - head) / macho_section_size(s);
    walk->left = count < fit ? count : fit;
    walk->next = size - head; /* offset of the first section after walk->at */
    if (walk->left) return true;
  }
  return false;
}

bool macho_next_section(const image_t *image, macho_sections_t *walk, macho_section_t *out) {
  window_t memory, *window = guard_of(image, &memory);
  elf_shape_t s = {image->is_64bit, image->is_big_endian};
  unsigned w = s.is_64bit ? 8 : 4;
  uint8_t raw[MACHO_SECTION_MAX];
  if (walk->left == 0 && !enter_segment(image, window, walk)) return false;
  if (!copy_command(image, window, walk->at - walk->next, raw, macho_section_size(s))) return false;
  walk->next -= macho_section_size(s);
  walk->left--;
  const uint8_t *tail = raw + 32 + 2 * w;
  *out = (macho_section_t){.address = elf_word(s, raw + 32),
                           .size = elf_word(s, raw + 32 + w),
                           .offset = elf_u32(s, tail),
                           .flags = elf_u32(s, tail + 16),
                           .reserved1 = elf_u32(s, tail + 20),
                           .reserved2 = elf_u32(s, tail + 24)};
  __builtin_memcpy(out->name, raw, 16);
  __builtin_memcpy(out->segment, raw + 16, 16);
  uint64_t end;
  if (__builtin_add_overflow(out->address, out->size, &end)) out->size = 0;
  uint32_t type = out->flags & MACHO_S_TYPE_MASK;
  if (type == MACHO_S_ZEROFILL || type == MACHO_S_GB_ZEROFILL ||
      type == MACHO_S_THREAD_LOCAL_ZEROFILL)
    out->offset = 0;
  return true;
}

uint32_t macho_segments(const image_t *image, uint64_t *addresses, uint64_t *sizes, uint32_t room) {
  window_t memory, *window = guard_of(image, &memory);
  elf_shape_t s = {image->is_64bit, image->is_big_endian};
  uint32_t found = 0, command, size;
  uint64_t at = 0;
  for (uint32_t i = 0; i < image->macho.command_count && found < room; i++, at += size) {
    uint8_t raw[40];
    if (!read_head(image, window, at, &command, &size)) break;
    if (!is_segment(command) || !copy_command(image, window, at, raw, sizeof raw)) continue;
    addresses[found] = elf_word(s, raw + 24);
    sizes[found] = elf_word(s, raw + 24 + (s.is_64bit ? 8 : 4));
    if (addresses[found] + sizes[found] < addresses[found]) sizes[found] = 0;
    found++;
  }
  return found;
}

bool macho_section_is_code(const macho_section_t *section) {
  return section->flags & (MACHO_S_ATTR_PURE_CODE | MACHO_S_ATTR_SOME_CODE);
}

section_t macho_contents(const image_t *image, const macho_section_t *section) {
  section_t out = {0};
  if (section->offset) out = macho_bytes(image, section->offset, section->size);
  if (out.data) out.address = section->address;
  return out;
}

/* Returns true if TEXT, at most 16 characters, equals NAME, which ends at END. */
static bool name_equals(const char *text, const char *name, const char *end) {
  while (name < end && *text && *text == *name)
    text++, name++;
  return name == end && !*text;
}

bool macho_section_named(const image_t *image, const char *name, section_t *out) {
  macho_sections_t walk = {0};
  macho_section_t section;
  const char *comma = name, *end;
  while (*comma && *comma != ',')
    comma++;
  for (end = comma; *end;)
    end++;
  while (*comma && macho_next_section(image, &walk, &section)) {
    if (!name_equals(section.segment, name, comma) || !name_equals(section.name, comma + 1, end))
      continue;
    *out = macho_contents(image, &section);
    return out->data != NULL;
  }
  return false;
}

/* ---- the other commands --------------------------------------------------------------------- */

static void take_command(macho_t *m, uint32_t command, const uint8_t *raw, uint32_t size) {
  image_t *image = m->image;
  elf_shape_t s = m->shape;
#define NUMBER(at)   elf_u32(s, raw + (at))
#define TAKE(to, at) m->to.offset = NUMBER(at), m->to.size = NUMBER((at) + 4)
  if (is_segment(command)) {
    bool is_ours = command == (s.is_64bit ? MACHO_LC_SEGMENT_64 : MACHO_LC_SEGMENT);
    if (is_ours && size >= macho_segment_size(s)) take_segment(m, raw);
  } else if (command == MACHO_LC_SYMTAB && size >= 24) {
    m->symbol_offset = NUMBER(8), m->symbol_count = NUMBER(12);
    m->string_offset = NUMBER(16), m->string_size = NUMBER(20);
  } else if (command == MACHO_LC_DYSYMTAB && size >= 64) {
    m->indirect_offset = NUMBER(56), m->indirect_count = NUMBER(60);
  } else if (command == MACHO_LC_UUID && size >= 24) {
    __builtin_memcpy(image->build_id, raw + 8, 16);
    image->build_id_size = 16;
  } else if (command == MACHO_LC_FUNCTION_STARTS && size >= 16) {
    TAKE(starts, 8);
  } else if (command == MACHO_LC_DYLD_EXPORTS_TRIE && size >= 16) {
    TAKE(exports, 8);
  } else if (command == MACHO_LC_DYLD_CHAINED_FIXUPS && size >= 16) {
    TAKE(chained, 8);
  } else if ((command == MACHO_LC_DYLD_INFO || command == MACHO_LC_DYLD_INFO_ONLY) && size >= 48) {
    TAKE(binds, 16), TAKE(weak, 24), TAKE(lazy, 32);
    if (NUMBER(44)) TAKE(exports, 40);
  } else if (command == MACHO_LC_MAIN && size >= 16) {
    m->entry_offset = elf_u64(s, raw + 8);
    m->has_entry_offset = true;
  }
#undef TAKE
#undef NUMBER
}

static bool each_command(macho_t *m) {
  const image_t *image = m->image;
  uint64_t at = 0;
  for (uint32_t i = 0; i < image->macho.command_count; i++) {
    uint8_t raw[MACHO_COMMAND_MAX] = {0};
    uint32_t command, size;
    if (!read_head(image, m->window, at, &command, &size)) return i > 0;
    uint32_t part = size < sizeof raw ? size : (uint32_t)sizeof raw;
    if (!copy_command(image, m->window, at, raw, part)) return i > 0;
    take_command(m, command, raw, size);
    if (command == MACHO_LC_UUID) m->uuid_at = at + 8;
    at += size;
  }
  return true;
}

/* ---- tables --------------------------------------------------------------------------------- */

/* Returns the part of a table that exists, in whole entries. */
static section_t table(const image_t *image, uint64_t offset, uint64_t count, unsigned entry) {
  if (image->file) {
    if (offset >= image->file_size) return (section_t){0};
    uint64_t fit = (image->file_size - offset) / entry;
    if (count > fit) count = fit;
  }
  return macho_bytes(image, offset, count * entry);
}

static void take_tables(macho_t *m) {
  image_t *image = m->image;
  macho_tables_t *t = &image->macho;
  unsigned entry = macho_nlist_size(m->shape);
  image->symtab = table(image, m->symbol_offset, m->symbol_count, entry);
  image->symtab_names = table(image, m->string_offset, m->string_size, 1);
  t->is_cut = image->file && (image->symtab.size < (uint64_t)m->symbol_count * entry ||
                              image->symtab_names.size < m->string_size);
  if (!image->symtab_names.data) image->symtab = (section_t){0};
  t->indirect_symbols = table(image, m->indirect_offset, m->indirect_count, 4);
  t->function_starts = macho_bytes(image, m->starts.offset, m->starts.size);
  t->export_trie = macho_bytes(image, m->exports.offset, m->exports.size);
  t->bind = macho_bytes(image, m->binds.offset, m->binds.size);
  t->weak_bind = macho_bytes(image, m->weak.offset, m->weak.size);
  t->lazy_bind = macho_bytes(image, m->lazy.offset, m->lazy.size);
  t->chained_fixups = macho_bytes(image, m->chained.offset, m->chained.size);
  macho_section_named(image, "__TEXT,__unwind_info", &t->unwind_info);
  macho_section_named(image, "__TEXT,__eh_frame", &image->eh_frame);
}

uint64_t macho_header_address(const image_t *image) {
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (s->file_offset == 0 && s->flags & ELF_PF_X) return s->address;
  }
  return image->start - image->slide;
}

/* ---- entry points ------------------------------------------------------------------------------
 */

int macho_parse(image_t *image, uint64_t header, window_t *window) {
  uint8_t raw[MACHO_HEADER_MAX] = {0};
  uint64_t base = image->file ? (uintptr_t)image->file : header;
  macho_t m = {.image = image, .window = window};
  if ((image->file && image->file_size < sizeof raw) ||
      !window_copy(window, base, raw, sizeof raw) || !read_magic(raw, &m.shape))
    return SONDE_EFORMAT;
  uint64_t head = macho_header_size(m.shape), size = elf_u32(m.shape, raw + 20);
  uint32_t count = elf_u32(m.shape, raw + 16);
  if (image->file && size > image->file_size - head) size = image->file_size - head;
  image->is_macho = true;
  image->is_64bit = m.shape.is_64bit;
  image->is_big_endian = m.shape.is_big_endian;
  image->machine = machine_of(elf_u32(m.shape, raw + 4));
  image->macho = (macho_tables_t){
      .file_type = elf_u32(m.shape, raw + 12),
      .flags = elf_u32(m.shape, raw + 24),
      .cpu_subtype = elf_u32(m.shape, raw + 8) & MACHO_SUBTYPE_MASK,
      .command_count = count < COMMANDS_MAX ? count : COMMANDS_MAX,
      .commands = {.data = (const uint8_t *)(uintptr_t)(base + head), .size = size}};
  image->is_executable = image->macho.file_type == MACHO_MH_EXECUTE;
  if (!each_command(&m)) return SONDE_EFORMAT;
  if (!image->file && image->segment_count == 0) return SONDE_EFORMAT;
  take_tables(&m);
  if (m.has_entry_offset) image->entry = macho_header_address(image) + m.entry_offset;
  if (image->build_id_size)
    image->build_id_address = macho_header_address(image) + head + m.uuid_at;
  image->start += image->slide;
  image->end += image->slide;
  return SONDE_OK;
}

int macho_parse_file(image_t *image, const macho_slice_t *slice, window_t *window) {
  macho_slice_t slices[MACHO_SLICES_MAX];
  if (!slice) {
    if (slices_of(image->file, image->file_size, slices, window) == 0) return SONDE_EFORMAT;
    slice = slices;
  }
  image->file += slice->offset;
  image->file_size = slice->size;
  return macho_parse(image, 0, window);
}
