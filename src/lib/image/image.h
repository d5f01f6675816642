/* SPDX-License-Identifier: MIT
 *
 * A loaded binary or a binary file, ELF or Mach-O: segments, unwind sections, symbol tables,
 * build-id.
 *
 * The same parser reads a live image (bytes where the loader mapped them) and a file (bytes of a
 * private read-only mapping): it is given a way to reach bytes by file offset or by address and
 * never looks elsewhere. Nothing in an image is trusted: every offset, size and count is checked
 * against the bytes that are there; a hostile file costs bounded time and memory.
 *
 * Addresses of sections are those of the file; add `slide` for run-time addresses.
 */
#ifndef SONDE_IMAGE_IMAGE_H
#define SONDE_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "image/machine.h"

/* Bytes of a section, and the address (in the file's own address space) they are linked at. */
typedef struct section {
  const uint8_t *data; /* NULL when the image has none */
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

/* What only Mach-O has; the tables are those of the load commands of like names. */
typedef struct macho_tables {
  uint32_t file_type; /* MH_OBJECT, MH_EXECUTE, … of macho_format.h */
  uint32_t flags;     /* MH_… */
  uint32_t cpu_subtype;
  uint32_t command_count;
  section_t commands; /* the load commands; address: of nothing */
  section_t function_starts, export_trie, indirect_symbols;
  section_t bind, weak_bind, lazy_bind, chained_fixups;
  section_t unwind_info; /* compact unwind: __TEXT,__unwind_info */
  bool is_cut;           /* the file ends before its symbol table does */
} macho_tables_t;

typedef struct image {
  /* where it is */
  uint64_t start, end; /* lowest and one past highest run-time address of its segments */
  uint64_t slide;
  segment_t segments[IMAGE_SEGMENTS_MAX];
  uint32_t segment_count;
  /* what it is */
  image_machine_t machine;
  uint64_t entry; /* where the kernel starts it, as in the file; 0: nowhere */
  bool is_64bit, is_big_endian, is_executable; /* executable: has an entry point and an interpreter
                                                  or is ET_EXEC, as opposed to a shared library */
  uint8_t build_id[IMAGE_BUILD_ID_MAX];
  uint32_t build_id_size;    /* 0 when it has none */
  uint64_t build_id_address; /* as linked; 0 when it was not found in a segment */
  /* how to unwind it */
  section_t eh_frame_hdr, eh_frame;
  section_t debug_frame; /* from files only; image/file.h adds it to a live image that needs it */
  /* what its symbols are */
  section_t symtab, symtab_names; /* from files, or where the loader happened to map it */
  section_t dynsym, dynsym_names;
  uint64_t dynamic_address; /* of PT_DYNAMIC, as linked; 0 when it has none */
  bool is_macho;            /* then `symtab` holds nlist entries, and build_id is the UUID */
  macho_tables_t macho;
  /* the bytes, when it is of a file; of a fat file those of one slice */
  const uint8_t *file;
  uint64_t file_size;
  const uint8_t *mapped; /* by image_open, and unmapped by image_close */
  uint64_t mapped_size;
} image_t;

/* Parses the image that is mapped at run-time address HEADER of this process (its ELF header must
 * be mapped there) with the given SLIDE. Async-signal-safe, allocates nothing. Reads through the
 * guarded reader until the segments are known. The sections point into the live image. Returns 0
 * or a negative SONDE_E…. */
int image_parse_live(image_t *image, uint64_t header, uint64_t slide);

/* Opens and parses the file PATH. Returns 0 or a negative SONDE_E…; release with image_close. */
int image_open(image_t *image, const char *path);

/* Parses DATA (kept by the caller for as long as IMAGE is used), as of a file. */
int image_parse_bytes(image_t *image, const uint8_t *data, uint64_t size);

void image_close(image_t *image);

/* Finds the section NAME (of Mach-O "__segment,__section") in an image opened from a file with
 * section headers. False when there is
 * none; a compressed section (SHF_COMPRESSED) is not unpacked and counts as none. */
bool image_section(const image_t *image, const char *name, section_t *out);

/* The nearest function symbol at or below ADDRESS (as linked) that covers it. */
typedef struct image_symbol {
  const char *name; /* in the image's bytes, ends with a 0 */
  uint64_t address; /* as linked */
  uint64_t size;    /* 0 when the table does not say */
} image_symbol_t;

#endif
