/* SPDX-License-Identifier: MIT
 *
 * The parts of the Mach-O format that sonde reads, as offsets into bytes. Sources: the OS X ABI
 * Mach-O File Format Reference, and the headers mach-o/loader.h, nlist.h, stab.h, fat.h and
 * fixup-chains.h, which define these constants. elf/format.h has the functions that read numbers.
 */
#ifndef SONDE_IMAGE_MACHO_FORMAT_H
#define SONDE_IMAGE_MACHO_FORMAT_H

#include "image/elf/format.h"

enum {
  MACHO_MAGIC_32 = 0xfeedface,
  MACHO_MAGIC_64 = 0xfeedfacf,
  MACHO_FAT_MAGIC = 0xcafebabe, /* always big endian */
  MACHO_FAT_MAGIC_64 = 0xcafebabf,

  MACHO_CPU_I386 = 7,
  MACHO_CPU_ARM = 12,
  MACHO_CPU_X86_64 = 0x01000007,
  MACHO_CPU_ARM64 = 0x0100000c,
  MACHO_CPU_ARM64_32 = 0x0200000c,
  MACHO_SUBTYPE_MASK = 0x00ffffff,
  MACHO_SUBTYPE_ARM64E = 2,

  MACHO_MH_OBJECT = 1,
  MACHO_MH_EXECUTE = 2,
  MACHO_MH_DSYM = 10,

  MACHO_LC_SEGMENT = 0x1,
  MACHO_LC_SYMTAB = 0x2,
  MACHO_LC_UNIXTHREAD = 0x5,
  MACHO_LC_DYSYMTAB = 0xb,
  MACHO_LC_LOAD_DYLIB = 0xc,
  MACHO_LC_SEGMENT_64 = 0x19,
  MACHO_LC_UUID = 0x1b,
  MACHO_LC_LAZY_LOAD_DYLIB = 0x20,
  MACHO_LC_DYLD_INFO = 0x22,
  MACHO_LC_FUNCTION_STARTS = 0x26,
  MACHO_LC_LOAD_WEAK_DYLIB = 0x80000018,
  MACHO_LC_REEXPORT_DYLIB = 0x8000001f,
  MACHO_LC_DYLD_INFO_ONLY = 0x80000022,
  MACHO_LC_LOAD_UPWARD_DYLIB = 0x80000023,
  MACHO_LC_MAIN = 0x80000028,
  MACHO_LC_DYLD_EXPORTS_TRIE = 0x80000033,
  MACHO_LC_DYLD_CHAINED_FIXUPS = 0x80000034,

  MACHO_SG_READ_ONLY = 0x10,

  MACHO_S_TYPE_MASK = 0xff,
  MACHO_S_ZEROFILL = 1,
  MACHO_S_NON_LAZY_POINTERS = 6,
  MACHO_S_LAZY_POINTERS = 7,
  MACHO_S_SYMBOL_STUBS = 8,
  MACHO_S_GB_ZEROFILL = 12,
  MACHO_S_LAZY_DYLIB_POINTERS = 16,
  MACHO_S_THREAD_LOCAL_ZEROFILL = 18,
  MACHO_S_ATTR_PURE_CODE = 0x80000000,
  MACHO_S_ATTR_SOME_CODE = 0x400,

  MACHO_INDIRECT_LOCAL = 0x80000000, /* entries of the indirect table without a symbol */
  MACHO_INDIRECT_ABS = 0x40000000,

  MACHO_N_STAB = 0xe0,
  MACHO_N_PEXT = 0x10,
  MACHO_N_TYPE = 0x0e,
  MACHO_N_EXT = 0x01,
  MACHO_N_UNDF = 0x0,
  MACHO_N_SECT = 0xe,
  MACHO_N_FUN = 0x24,
  MACHO_N_SO = 0x64,
  MACHO_N_OSO = 0x66,
  MACHO_N_WEAK_REF = 0x40,
  MACHO_N_WEAK_DEF = 0x80,
};

#define MACHO_HEADER_MAX  32
#define MACHO_COMMAND_MAX 80 /* the bytes that are read, without sections */
#define MACHO_SECTION_MAX 80
#define MACHO_NLIST_MAX   16

static inline unsigned macho_header_size(elf_shape_t s) { return s.is_64bit ? 32 : 28; }
static inline unsigned macho_segment_size(elf_shape_t s) { return s.is_64bit ? 72 : 56; }
static inline unsigned macho_section_size(elf_shape_t s) { return s.is_64bit ? 80 : 68; }
static inline unsigned macho_nlist_size(elf_shape_t s) { return s.is_64bit ? 16 : 12; }

typedef struct macho_nlist {
  uint32_t name;
  uint8_t type, section; /* section: from 1 */
  uint16_t description;
  uint64_t value;
} macho_nlist_t;

static inline macho_nlist_t macho_nlist(elf_shape_t s, const uint8_t *p) {
  return (macho_nlist_t){.name = elf_u32(s, p),
                         .type = p[4],
                         .section = p[5],
                         .description = elf_u16(s, p + 6),
                         .value = elf_word(s, p + 8)};
}

/* Returns true if the entry defines a symbol in a section. Other entries are for debuggers, or
 * import. */
static inline bool macho_nlist_is_defined(const macho_nlist_t *n) {
  return !(n->type & MACHO_N_STAB) && (n->type & MACHO_N_TYPE) == MACHO_N_SECT;
}

static inline elf_shape_t macho_shape(bool is_64bit, bool is_big_endian) {
  return (elf_shape_t){.is_64bit = is_64bit, .is_big_endian = is_big_endian};
}

#endif
