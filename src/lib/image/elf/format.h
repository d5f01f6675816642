/* SPDX-License-Identifier: MIT
 *
 * The parts of the ELF format that sonde reads (System V gABI chapters 4 and 5, and the GNU
 * extensions of the Linux Standard Base). They are offsets into bytes rather than structures. So
 * one reader serves both classes and both byte orders, and no field is read misaligned.
 */
#ifndef SONDE_IMAGE_ELF_FORMAT_H
#define SONDE_IMAGE_ELF_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  ELF_ET_EXEC = 2,
  ELF_ET_DYN = 3,

  ELF_EM_386 = 3,
  ELF_EM_S390 = 22,
  ELF_EM_ARM = 40,
  ELF_EM_X86_64 = 62,
  ELF_EM_AARCH64 = 183,

  ELF_PT_LOAD = 1,
  ELF_PT_DYNAMIC = 2,
  ELF_PT_INTERP = 3,
  ELF_PT_NOTE = 4,
  ELF_PT_GNU_EH_FRAME = 0x6474e550,
  ELF_PT_GNU_RELRO = 0x6474e552,
  ELF_PF_X = 1,
  ELF_PF_R = 4,
  ELF_PN_XNUM = 0xffff,

  ELF_SHT_SYMTAB = 2,
  ELF_SHT_NOTE = 7,
  ELF_SHT_NOBITS = 8,
  ELF_SHT_DYNSYM = 11,
  ELF_SHF_COMPRESSED = 0x800,
  ELF_SHN_UNDEF = 0,
  ELF_SHN_LORESERVE = 0xff00,
  ELF_SHN_XINDEX = 0xffff,

  ELF_DT_NULL = 0,
  ELF_DT_PLTRELSZ = 2,
  ELF_DT_HASH = 4,
  ELF_DT_STRTAB = 5,
  ELF_DT_SYMTAB = 6,
  ELF_DT_RELA = 7,
  ELF_DT_RELASZ = 8,
  ELF_DT_STRSZ = 10,
  ELF_DT_SYMENT = 11,
  ELF_DT_INIT = 12,
  ELF_DT_SONAME = 14,
  ELF_DT_SYMBOLIC = 16,
  ELF_DT_JMPREL = 23,
  ELF_DT_INIT_ARRAY = 25,
  ELF_DT_INIT_ARRAYSZ = 27,
  ELF_DT_FLAGS = 30,
  ELF_DT_GNU_HASH = 0x6ffffef5,
  ELF_DT_VERSYM = 0x6ffffff0,
  ELF_DT_RELACOUNT = 0x6ffffff9,
  ELF_DT_FLAGS_1 = 0x6ffffffb,
  ELF_DT_VERDEF = 0x6ffffffc,
  ELF_DT_VERDEFNUM = 0x6ffffffd,
  ELF_DT_VERNEED = 0x6ffffffe,
  ELF_DT_VERNEEDNUM = 0x6fffffff,
  ELF_DF_SYMBOLIC = 2,
  ELF_DF_1_PIE = 0x08000000,

  ELF_NT_GNU_BUILD_ID = 3,

  ELF_R_X86_64_64 = 1,
  ELF_R_X86_64_GLOB_DAT = 6,
  ELF_R_X86_64_JUMP_SLOT = 7,
  ELF_R_AARCH64_ABS64 = 257,
  ELF_R_AARCH64_GLOB_DAT = 1025,
  ELF_R_AARCH64_JUMP_SLOT = 1026,

  ELF_STT_NOTYPE = 0,
  ELF_STT_FUNC = 2,
  ELF_STT_GNU_IFUNC = 10,
  ELF_STB_LOCAL = 0,
  ELF_STB_GLOBAL = 1,
  ELF_STB_WEAK = 2,
  ELF_STB_GNU_UNIQUE = 10,
};

/* How the bytes of one file are to be read. */
typedef struct elf_shape {
  bool is_64bit;
  bool is_big_endian;
} elf_shape_t;

static inline uint16_t elf_u16(elf_shape_t s, const uint8_t *p) {
  return (uint16_t)(s.is_big_endian ? p[0] << 8 | p[1] : p[1] << 8 | p[0]);
}

static inline uint32_t elf_u32(elf_shape_t s, const uint8_t *p) {
  uint32_t v;
  __builtin_memcpy(&v, p, sizeof v);
  bool host_is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  return s.is_big_endian == host_is_big ? v : __builtin_bswap32(v);
}

static inline uint64_t elf_u64(elf_shape_t s, const uint8_t *p) {
  uint64_t v;
  __builtin_memcpy(&v, p, sizeof v);
  bool host_is_big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
  return s.is_big_endian == host_is_big ? v : __builtin_bswap64(v);
}

/* A field as wide as an address of the class. */
static inline uint64_t elf_word(elf_shape_t s, const uint8_t *p) {
  return s.is_64bit ? elf_u64(s, p) : elf_u32(s, p);
}

#define ELF_EHDR_MAX 64
#define ELF_PHDR_MAX 56
#define ELF_SHDR_MAX 64
#define ELF_SYM_MAX  24

static inline unsigned elf_ehdr_size(elf_shape_t s) { return s.is_64bit ? 64 : 52; }
static inline unsigned elf_phdr_size(elf_shape_t s) { return s.is_64bit ? 56 : 32; }
static inline unsigned elf_shdr_size(elf_shape_t s) { return s.is_64bit ? 64 : 40; }
static inline unsigned elf_sym_size(elf_shape_t s) { return s.is_64bit ? 24 : 16; }
static inline unsigned elf_dyn_size(elf_shape_t s) { return s.is_64bit ? 16 : 8; }

typedef struct elf_ehdr {
  uint16_t type, machine;
  uint64_t entry, phoff, shoff;
  uint16_t phentsize, phnum, shentsize, shnum, shstrndx;
} elf_ehdr_t;

static inline elf_ehdr_t elf_ehdr(elf_shape_t s, const uint8_t *p) {
  const uint8_t *tail = p + (s.is_64bit ? 54 : 42); /* after e_phentsize both classes are equal */
  return (elf_ehdr_t){
      .type = elf_u16(s, p + 16),
      .machine = elf_u16(s, p + 18),
      .entry = elf_word(s, p + 24),
      .phoff = elf_word(s, p + (s.is_64bit ? 32 : 28)),
      .shoff = elf_word(s, p + (s.is_64bit ? 40 : 32)),
      .phentsize = elf_u16(s, tail),
      .phnum = elf_u16(s, tail + 2),
      .shentsize = elf_u16(s, tail + 4),
      .shnum = elf_u16(s, tail + 6),
      .shstrndx = elf_u16(s, tail + 8),
  };
}

typedef struct elf_phdr {
  uint32_t type, flags;
  uint64_t offset, vaddr, filesz, memsz, align;
} elf_phdr_t;

static inline elf_phdr_t elf_phdr(elf_shape_t s, const uint8_t *p) {
  bool w = s.is_64bit;
  return (elf_phdr_t){
      .type = elf_u32(s, p),
      .flags = elf_u32(s, p + (w ? 4 : 24)),
      .offset = elf_word(s, p + (w ? 8 : 4)),
      .vaddr = elf_word(s, p + (w ? 16 : 8)),
      .filesz = elf_word(s, p + (w ? 32 : 16)),
      .memsz = elf_word(s, p + (w ? 40 : 20)),
      .align = elf_word(s, p + (w ? 48 : 28)),
  };
}

typedef struct elf_shdr {
  uint32_t name, type, link, info;
  uint64_t flags, address, offset, size;
} elf_shdr_t;

static inline elf_shdr_t elf_shdr(elf_shape_t s, const uint8_t *p) {
  bool w = s.is_64bit;
  return (elf_shdr_t){
      .name = elf_u32(s, p),
      .type = elf_u32(s, p + 4),
      .flags = elf_word(s, p + 8),
      .address = elf_word(s, p + (w ? 16 : 12)),
      .offset = elf_word(s, p + (w ? 24 : 16)),
      .size = elf_word(s, p + (w ? 32 : 20)),
      .link = elf_u32(s, p + (w ? 40 : 24)),
      .info = elf_u32(s, p + (w ? 44 : 28)),
  };
}

typedef struct elf_sym {
  uint32_t name;
  uint8_t type, binding;
  uint16_t shndx;
  uint64_t value, size;
} elf_sym_t;

static inline elf_sym_t elf_sym(elf_shape_t s, const uint8_t *p) {
  bool w = s.is_64bit;
  uint8_t info = p[w ? 4 : 12];
  return (elf_sym_t){
      .name = elf_u32(s, p),
      .type = info & 15,
      .binding = info >> 4,
      .shndx = elf_u16(s, p + (w ? 6 : 14)),
      .value = elf_word(s, p + (w ? 8 : 4)),
      .size = elf_word(s, p + (w ? 16 : 8)),
  };
}

#endif
