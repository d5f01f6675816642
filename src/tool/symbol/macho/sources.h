/* SPDX-License-Identifier: MIT
 *
 * Which files answer for a Mach-O module: the image, its dSYM bundle, or, where there is none, the
 * object files that its debug map names.
 */
#ifndef SONDE_SYMBOL_MACHO_SOURCES_H
#define SONDE_SYMBOL_MACHO_SOURCES_H

#include "symbol/dwarf/dwarf.h"
#include "symbol/macho/file.h"

typedef struct macho_sources {
  macho_file_t image, debug; /* either may be missing */
} macho_sources_t;

/* Opens what there is, as sources_open does: the image, and if it has no DWARF of its own the dSYM
 * of its UUID, beside the image or in DEBUG_DIRS (NAME.dSYM bundles, or files as they stand in
 * one). NULL with *REASON; SYMBOL_BAD_FILE when the file is no Mach-O. */
macho_sources_t *macho_sources_open(const symbol_source_t *source, const char *const *debug_dirs,
                                    symbol_reason_t *reason);
void macho_sources_close(macho_sources_t *sources);

/* The image, or its dSYM when there is nothing else. */
const image_t *macho_sources_image(const macho_sources_t *sources);

/* The file with DWARF; NULL when there is none. */
const macho_file_t *macho_sources_debug(const macho_sources_t *sources);

#endif
