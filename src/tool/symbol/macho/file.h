/* SPDX-License-Identifier: MIT
 *
 * A Mach-O file for naming: mapped, its slice chosen, its DWARF made readable for libdw.
 *
 * libdw reads ELF alone, but DWARF is the same in both formats: all it needs of ELF is a header and
 * a table that says where each section of that name stands. That table is written into a page that
 * is mapped right before the file's own bytes, so nothing is copied and one library serves both.
 */
#ifndef SONDE_SYMBOL_MACHO_FILE_H
#define SONDE_SYMBOL_MACHO_FILE_H

#include <sys/stat.h>

#include "image/image.h"
#include "symbol/symbol.h"

typedef struct macho_file {
  uint8_t *map; /* a page for the ELF header, then the file; NULL: not open */
  size_t map_size;
  image_t image; /* of the chosen slice */
  struct stat status;
  char *path;
  uint64_t debug_size; /* bytes of __debug_info; 0: none */
} macho_file_t;

/* Which slice of a fat file: the one of this UUID, else of this machine, else the first. A UUID or
 * a machine that no slice has is refused. arm64 is taken before arm64e, unless that is asked for.
 */
typedef struct macho_choice {
  const uint8_t *uuid;
  size_t uuid_size;
  image_machine_t machine;
  bool is_arm64e;
} macho_choice_t;

/* SYMBOL_NAMED, or SYMBOL_NO_FILE, SYMBOL_BAD_FILE (no Mach-O, or damaged), SYMBOL_REPLACED,
 * SYMBOL_TRUNCATED (the chosen slice is not there as a whole). */
symbol_reason_t macho_file_open(macho_file_t *file, const char *path, const macho_choice_t *choice);

/* The same of a member of an archive, which FILE was opened as: as MEMBER, "lib.a(member.o)" of a
 * debug map. Plain files pass as well. */
symbol_reason_t macho_object_open(macho_file_t *file, const char *path, image_machine_t machine);
void macho_file_close(macho_file_t *file);

/* The bytes that libelf is to be given, or false when the file has no DWARF that it could read. */
bool macho_file_elf(const macho_file_t *file, const uint8_t **bytes, size_t *size);

/* Where code is, as linked. */
void macho_file_code(const image_t *image, uint64_t *low, uint64_t *high);

#endif
