/* SPDX-License-Identifier: MIT
 *
 * Where the files of a module are searched.
 *
 * A sysroot is a copy of another machine's root folder. A debug folder has debug files by build-id,
 * binaries or dSYM bundles. A file found there must have the module's build-id or UUID. One thread
 * uses these functions.
 */
#ifndef SONDE_SYMBOL_PLACES_H
#define SONDE_SYMBOL_PLACES_H

#include <limits.h>

#include "symbol/symbol.h"

typedef struct elf_folders elf_folders_t;

typedef struct symbol_places {
  const char *const *debug_dirs; /* ends with NULL; may be NULL */
  const char *const *sysroots;   /* as DEBUG_DIRS */
  elf_folders_t **folders;       /* what debug folders contain; *FOLDERS is NULL at first */
} symbol_places_t;

/* Writes the path number NUMBER (from 0) of SOURCE's image to PATH: below each sysroot, then in the
 * file system. False after the last. *IS_FOREIGN is set for a path below a sysroot. */
bool symbol_place(const symbol_places_t *places, const symbol_source_t *source, size_t number,
                  char path[PATH_MAX], bool *is_foreign);

#endif
