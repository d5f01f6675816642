/* SPDX-License-Identifier: MIT
 *
 * The files of an ELF module: the image, its separate debug file, and the small symbol table packed
 * into the image.
 */
#ifndef SONDE_SYMBOL_ELF_SOURCES_H
#define SONDE_SYMBOL_ELF_SOURCES_H

#include <libelf.h>

#include "symbol/macho/sources.h"
#include "symbol/symbol.h"

typedef struct elf_file {
  int fd;   /* -1: in memory, or none */
  Elf *elf; /* NULL: none */
  char *path;
} elf_file_t;

typedef struct sources {
  elf_file_t image;
  elf_file_t debug; /* none when the image has the debug information */
  elf_file_t mini;  /* .gnu_debugdata unpacked */
  uint8_t *mini_bytes;
  macho_sources_t *macho; /* not NULL: a Mach-O module; the files above are then empty */
  bool image_has_debug;   /* .debug_info with content */
  uint64_t bias;          /* address in the image - address in `debug` */
  uint64_t link_base;
  uint64_t code_low, code_high;
  uint64_t fingerprint;
  uint64_t debug_size;   /* bytes of .debug_info in the file: estimates the cost of reading it */
  bool is_compressed;    /* the debug information: opening it takes time, too */
  uint64_t symbols_size; /* bytes of the symbol tables */
} sources_t;

/* The path of the file with debug information; NULL when there is none. */
const char *sources_debug_path(const sources_t *sources);

/* Opens the files of SOURCE. Returns SYMBOL_NAMED, or the reason why none can be used; then none is
 * open. Searches debug files in PLACES, in /usr/lib/debug, beside the image, and through debuginfod
 * if DEBUGINFOD_URLS is set. */
symbol_reason_t sources_open(sources_t *sources, const symbol_source_t *source,
                             const symbol_places_t *places);
void sources_close(sources_t *sources);

/* Copies the build-id of the files to OUT. Returns its size; 0 when there is none, or it exceeds
 * CAPACITY. */
size_t sources_build_id(const sources_t *sources, uint8_t *out, size_t capacity);

#endif
