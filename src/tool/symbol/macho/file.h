/* SPDX-License-Identifier: MIT
 *
 * A Mach-O file for symbolization: maps it, chooses its slice, and makes its DWARF readable for
 * libdw.
 *
 * libdw reads only ELF, but DWARF is the same in both formats. libdw needs an ELF header and
 * section headers with the name and place of each section. These headers are written into memory
 * mapped right before the file's bytes, so nothing is copied.
 */
#ifndef SONDE_SYMBOL_MACHO_FILE_H
#define SONDE_SYMBOL_MACHO_FILE_H

#include <sys/stat.h>

#include "image/image.h"
#include "symbol/symbol.h"

typedef struct macho_file {
  uint8_t *map; /* space for the ELF headers, then the file; NULL: not open */
  size_t map_size;
  image_t image; /* of the chosen slice */
  struct stat status;
  char *path;
  uint64_t debug_size; /* bytes of __debug_info; 0: none */
} macho_file_t;

/* Chooses the slice of a fat file: the one with this UUID, else for this machine, else the first.
 * Fails when no slice has this UUID or machine. Prefers arm64 to arm64e, unless is_arm64e is set.
 */
typedef struct macho_choice {
  const uint8_t *uuid;
  size_t uuid_size;
  image_machine_t machine;
  bool is_arm64e;
} macho_choice_t;

/* Returns SYMBOL_NAMED, or SYMBOL_NO_FILE, SYMBOL_BAD_FILE (not Mach-O, or damaged),
 * SYMBOL_REPLACED (no such slice), SYMBOL_TRUNCATED (the chosen slice is incomplete). */
symbol_reason_t macho_file_open(macho_file_t *file, const char *path, const macho_choice_t *choice);

/* Opens an object file named in a debug map: a plain file, or a member of an archive as
 * "lib.a(member.o)". */
symbol_reason_t macho_object_open(macho_file_t *file, const char *path, image_machine_t machine);
void macho_file_close(macho_file_t *file);

/* Sets *BYTES to the ELF file for libelf. False when the file has no DWARF that libdw can read. */
bool macho_file_elf(const macho_file_t *file, const uint8_t **bytes, size_t *size);

/* The range of the executable segments, as linked. */
void macho_file_code(const image_t *image, uint64_t *low, uint64_t *high);

#endif
