/* SPDX-License-Identifier: MIT
 *
 * A loaded binary or a binary file, ELF or Mach-O: segments, unwind sections, symbol tables,
 * build-id.
 *
 * One parser reads live images (bytes where the loader mapped them) and files (bytes of a private
 * read-only mapping). It reaches bytes only through two functions, by file offset and by address.
 * Nothing in an image is trusted: every offset, size and count is checked against the bytes that
 * exist, and a hostile file costs bounded time and memory.
 *
 * Addresses of sections are link-time addresses; add `slide` for run-time addresses.
 */
#ifndef SONDE_IMAGE_IMAGE_H
#define SONDE_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "image/machine.h"

/* The bytes of a section and its link-time address. */
typedef struct section {
  const uint8_t *data; /* NULL: the image has no such section */
  uint64_t size;
  uint64_t address;
} section_t;

#define IMAGE_BUILD_ID_MAX 32
#define IMAGE_SEGMENTS_MAX 16

typedef struct segment {
  uint64_t address; /* as linked */
  uint64_t size;    /* in memory */
  uint64_t file_offset;
  uint64_t file_size;
  uint32_t flags; /* PF_R, PF_W, PF_X of the ELF specification */
  bool is_const;  /* Mach-O: read-only once the loader has bound it (SG_READ_ONLY) */
} segment_t;

/* The parts that only Mach-O has. The tables are those of the load commands with similar names. */
typedef struct macho_tables {
  uint32_t file_type; /* MH_OBJECT, MH_EXECUTE, … of macho_format.h */
  uint32_t flags;     /* MH_… */
  uint32_t cpu_subtype;
  uint32_t command_count;
  section_t commands; /* the load commands; its address is not used */
  section_t function_starts, export_trie, indirect_symbols;
  section_t bind, weak_bind, lazy_bind, chained_fixups;
  section_t unwind_info; /* compact unwind: __TEXT,__unwind_info */
  bool is_cut;           /* the file ends before its symbol table does */
} macho_tables_t;

typedef struct image {
  /* location */
  uint64_t start, end; /* lowest and one past highest run-time address of its segments */
  uint64_t slide;
  segment_t segments[IMAGE_SEGMENTS_MAX];
  uint32_t segment_count;
  /* kind and identity */
  image_machine_t machine;
  uint64_t entry; /* link-time address of the entry point; 0: none */
  bool is_64bit, is_big_endian;
  bool is_executable; /* has an entry point and an interpreter, or is ET_EXEC: not a library */
  uint8_t build_id[IMAGE_BUILD_ID_MAX];
  uint32_t build_id_size;    /* 0: none */
  uint64_t build_id_address; /* as linked; 0: not found in a segment */
  /* unwind information */
  section_t eh_frame_hdr, eh_frame;
  section_t debug_frame;     /* of files only; image/file.h adds it to a live image that needs it */
  section_t debug_frame_hdr; /* its search table, of cfi_index; NULL: none */
  /* symbols */
  section_t symtab, symtab_names; /* of files, and of live images whose segments contain it */
  section_t dynsym, dynsym_names;
  uint64_t dynamic_address; /* of PT_DYNAMIC, as linked; 0: none */
  bool is_macho;            /* if so, `symtab` holds nlist entries, and build_id is the UUID */
  macho_tables_t macho;
  /* the bytes of a file; of a fat file those of one slice */
  const uint8_t *file;
  uint64_t file_size;
  const uint8_t *mapped; /* mapped by image_open, unmapped by image_close */
  uint64_t mapped_size;
} image_t;

/* Parses the image whose header is mapped at run-time address HEADER of this process, with the
 * given SLIDE. Reads with os_read_memory until the segments are known. The sections point into the
 * live image. Async-signal-safe; allocates nothing. Returns 0 or a negative SONDE_E…. */
int image_parse_live(image_t *image, uint64_t header, uint64_t slide);

/* Opens and parses the file PATH. Returns 0 or a negative SONDE_E…; release with image_close. */
int image_open(image_t *image, const char *path);

/* Parses DATA, the bytes of a file. The caller keeps DATA while IMAGE is in use. */
int image_parse_bytes(image_t *image, const uint8_t *data, uint64_t size);

void image_close(image_t *image);

/* Finds the section NAME (for Mach-O "__segment,__section") in an image opened from a file with
 * section headers. Returns false if there is none, or if the section is compressed
 * (SHF_COMPRESSED). */
bool image_section(const image_t *image, const char *name, section_t *out);

/* A function symbol. */
typedef struct image_symbol {
  const char *name; /* points into the image's bytes; ends with a 0 */
  uint64_t address; /* as linked */
  uint64_t size;    /* 0: the table has no size */
} image_symbol_t;

#endif
