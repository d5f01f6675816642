/* SPDX-License-Identifier: MIT
 *
 * The parser of Mach-O images, behind image.h.
 *
 * A fat file holds one image ("slice") for each of several CPUs. image_open reads the first slice.
 * To read another one, list the slices and choose.
 */
#ifndef SONDE_IMAGE_MACHO_MACHO_H
#define SONDE_IMAGE_MACHO_MACHO_H

#include "image/image.h"
#include "image/window.h"

/* One image of a file; a thin file is one slice. */
typedef struct macho_slice {
  uint64_t offset, size;   /* within the file */
  image_machine_t machine; /* from the fat file's header; the image itself may differ */
  bool is_arm64e;
  bool is_cut; /* the file is shorter than its header says; `size` is the part that exists */
} macho_slice_t;

#define MACHO_SLICES_MAX 32

/* Lists the slices of FILE, at most MACHO_SLICES_MAX. Returns their number; 0: not a Mach-O file.
 */
int macho_slices(const uint8_t *file, uint64_t size, macho_slice_t *out);

/* Parses the image at run-time address HEADER, or IMAGE->file if HEADER is 0. The caller has set
 * IMAGE->slide. Used by image_parse_live and similar functions. */
int macho_parse(image_t *image, uint64_t header, window_t *window);

/* Parses SLICE (NULL: the first) of IMAGE->file, and sets IMAGE->file to the slice's bytes. */
int macho_parse_file(image_t *image, const macho_slice_t *slice, window_t *window);

typedef struct macho_section {
  char name[17], segment[17];
  uint64_t address, size; /* as linked */
  uint32_t offset;        /* in the image; 0: no bytes */
  uint32_t flags;         /* S_… of macho_format.h */
  uint32_t reserved1, reserved2;
} macho_section_t;

/* An iterator over the sections of all load commands, in order. Symbols number sections from 1.
 * Zero it to begin. */
typedef struct macho_sections {
  uint64_t at;            /* offset of the current command */
  uint32_t command, next; /* its number; the next section within it */
  uint32_t left;          /* sections left in it */
} macho_sections_t;
bool macho_next_section(const image_t *image, macho_sections_t *walk, macho_section_t *out);

/* Lists addresses and sizes of all segments in the order of the load commands, including
 * __PAGEZERO, at most ROOM. Returns their number. */
uint32_t macho_segments(const image_t *image, uint64_t *addresses, uint64_t *sizes, uint32_t room);

/* Returns true if SECTION holds instructions. Stubs are code; a table in __TEXT is not. */
bool macho_section_is_code(const macho_section_t *section);

/* Returns the bytes of a section of IMAGE, which may be empty. */
section_t macho_contents(const image_t *image, const macho_section_t *section);

/* As image_section. */
bool macho_section_named(const image_t *image, const char *name, section_t *out);

/* Returns SIZE bytes at file offset OFFSET; in a live image, at the address where their segment is
 * mapped. Returns an empty section if they do not exist. */
section_t macho_bytes(const image_t *image, uint64_t offset, uint64_t size);

/* Reads the next function start from the table STARTS. *ADDRESS is the previous one (at first
 * macho_header_address), *AT the offset in the table. Returns false at the end and at damaged data.
 */
bool macho_next_function(const section_t *starts, uint64_t *at, uint64_t *address);

/* The link-time address of the mach header: that of the segment that maps the start of the file. */
uint64_t macho_header_address(const image_t *image);

/* Finds the exported function or variable NAME, without the linker's underscore, in the trie.
 * Returns false if IMAGE does not define it, re-exports it, or defines it as absolute or
 * thread-local. */
bool macho_export(const image_t *image, const char *name, uint64_t *address);

#endif
