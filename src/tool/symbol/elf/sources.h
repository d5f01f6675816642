/* SPDX-License-Identifier: MIT
 *
 * Which files answer for a module: the image itself, its separate debug file, the small symbol
 * table packed into it.
 */
#ifndef SONDE_SYMBOL_ELF_SOURCES_H
#define SONDE_SYMBOL_ELF_SOURCES_H

#include <libelf.h>

#include "symbol/macho/sources.h"
#include "symbol/symbol.h"

typedef struct elf_file {
  int fd;   /* -1: from memory, or none */
  Elf *elf; /* NULL: none */
  char *path;
} elf_file_t;

typedef struct sources {
  elf_file_t image;
  elf_file_t debug; /* none when the image holds the debug information itself */
  elf_file_t mini;  /* .gnu_debugdata unpacked */
  uint8_t *mini_bytes;
  macho_sources_t *macho; /* not NULL: it is a Mach-O module, and the three above are empty */
  bool image_has_debug;   /* .debug_info with bytes in it */
  uint64_t bias;          /* to be added to an address in `debug` for one in the image */
  uint64_t link_base;
  uint64_t code_low, code_high;
  uint64_t fingerprint;
  uint64_t debug_size;   /* bytes of .debug_info as stored: what reading it will cost */
  uint64_t symbols_size; /* bytes of the symbol tables */
} sources_t;

/* The path of the file with the debug information; NULL when there is none. */
const char *sources_debug_path(const sources_t *sources);

/* Opens what there is. SYMBOL_NAMED when something can be asked, else the reason; then nothing is
 * open. Debug files are looked for in DEBUG_DIRS (ends with NULL, may be NULL), then in
 * /usr/lib/debug, beside the image, and through debuginfod when DEBUGINFOD_URLS is set. */
symbol_reason_t sources_open(sources_t *sources, const symbol_source_t *source,
                             const char *const *debug_dirs);
void sources_close(sources_t *sources);

/* Copies the build-id of the files, at most ROOM bytes, to OUT. Returns its size; 0: none. */
size_t sources_build_id(const sources_t *sources, uint8_t *out, size_t room);

#endif
