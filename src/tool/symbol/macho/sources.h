/* SPDX-License-Identifier: MIT
 *
 * The files of a Mach-O module: the image and its dSYM bundle, or, without a dSYM, the object files
 * in its debug map.
 */
#ifndef SONDE_SYMBOL_MACHO_SOURCES_H
#define SONDE_SYMBOL_MACHO_SOURCES_H

#include "symbol/dwarf/dwarf.h"
#include "symbol/macho/file.h"
#include "symbol/places.h"

typedef struct macho_sources {
  macho_file_t image, debug; /* either may be missing */
} macho_sources_t;

/* Opens the files of SOURCE, like sources_open: the image and, if it has no DWARF, the dSYM with
 * its UUID beside the image or in debug folders (NAME.dSYM bundles, or the files of one). A missing
 * image is searched by its UUID in these folders too. NULL with *REASON; SYMBOL_BAD_FILE when the
 * file is not Mach-O. */
macho_sources_t *macho_sources_open(const symbol_source_t *source, const symbol_places_t *places,
                                    symbol_reason_t *reason);
void macho_sources_close(macho_sources_t *sources);

/* The image, or its dSYM when there is no image. */
const image_t *macho_sources_image(const macho_sources_t *sources);

/* The file with the DWARF; NULL when there is none. */
const macho_file_t *macho_sources_debug(const macho_sources_t *sources);

#endif
