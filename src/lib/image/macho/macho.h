/* SPDX-License-Identifier: MIT
 *
 * Mach-O: the other format behind image.h.
 *
 * A fat file holds one image ("slice") for each of several processors. image_open takes the first;
 * who wants another one lists them and chooses.
 */
#ifndef SONDE_IMAGE_MACHO_MACHO_H
#define SONDE_IMAGE_MACHO_MACHO_H

#include "image/image.h"
#include "image/window.h"

/* One image of a file: the whole file when it is thin. */
typedef struct macho_slice {
  uint64_t offset, size;   /* within the file */
  image_machine_t machine; /* as a fat file's header says: the image may be another */
  bool is_arm64e;
  bool is_cut; /* the header speaks of more than the file has; `size` is what is there, maybe 0 */
} macho_slice_t;

#define MACHO_SLICES_MAX 32

/* The slices of FILE, at most MACHO_SLICES_MAX. Returns how many; 0: it is no Mach-O file. */
int macho_slices(const uint8_t *file, uint64_t size, macho_slice_t *out);

/* Parses the image at run-time address HEADER, or, when that is 0, IMAGE->file. IMAGE->slide is
 * set. For image_parse_live and its like. */
int macho_parse(image_t *image, uint64_t header, window_t *window);

/* Parses SLICE (NULL: the first) of IMAGE->file, which becomes the slice's bytes. */
int macho_parse_file(image_t *image, const macho_slice_t *slice, window_t *window);

typedef struct macho_section {
  char name[17], segment[17];
  uint64_t address, size; /* as linked */
  uint32_t offset;        /* in the image; 0 when it has no bytes */
  uint32_t flags;         /* S_… of macho_format.h */
  uint32_t reserved1, reserved2;
} macho_section_t;

/* Walks the load commands for their sections, in order; section numbers of symbols count from 1.
 * Zero it to begin. */
typedef struct macho_sections {
  uint64_t at;            /* offset of the present command */
  uint32_t command, next; /* its number; the next section within it */
  uint32_t left;          /* sections left in it */
} macho_sections_t;
bool macho_next_section(const image_t *image, macho_sections_t *walk, macho_section_t *out);

/* Addresses and sizes of all segments as the load commands number them, __PAGEZERO included; at
 * most ROOM. Returns how many. */
uint32_t macho_segments(const image_t *image, uint64_t *addresses, uint64_t *sizes, uint32_t room);

/* Has it instructions? Stubs are code; a table that lies in __TEXT is not. */
bool macho_section_is_code(const macho_section_t *section);

/* The bytes of a section of IMAGE; empty when it has none. */
section_t macho_contents(const image_t *image, const macho_section_t *section);

/* As image_section. */
bool macho_section_named(const image_t *image, const char *name, section_t *out);

/* The bytes of SIZE from file offset OFFSET; in a live image where its segment is mapped. Empty
 * when they are not there. */
section_t macho_bytes(const image_t *image, uint64_t offset, uint64_t size);

/* Function starts, one call each, from the table STARTS: *ADDRESS is the last one (at first
 * macho_header_address), *AT the offset in the table. False at the end, and at damage. */
bool macho_next_function(const section_t *starts, uint64_t *at, uint64_t *address);

/* The address of the mach header, as linked: of the segment that maps the file's beginning. */
uint64_t macho_header_address(const image_t *image);

/* Calls VISIT with each exported symbol: its name as it stands in the trie, its address as linked
 * (of an absolute or thread-local one its value), its flags. A re-export has address 0. Stops when
 * VISIT returns false; a hostile trie ends after a bounded time. Names longer than
 * MACHO_EXPORT_NAME_MAX are passed over. For files, not for live images that may vanish. */
#define MACHO_EXPORT_NAME_MAX 4096
void macho_exports(const image_t *image,
                   bool (*visit)(const char *name, uint64_t address, uint64_t flags, void *context),
                   void *context);

/* Finds the exported function or variable NAME, without the linker's underscore, by the trie. False
 * when IMAGE has none, re-exports it from another, or it is absolute or thread-local. */
bool macho_export(const image_t *image, const char *name, uint64_t *address);

#endif
