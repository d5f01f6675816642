/* SPDX-License-Identifier: MIT
 *
 * The debug map. If the linker left the DWARF in the object files, the image's symbol table names
 * the object of each function (stabs N_OSO and N_FUN). The object's addresses are translated
 * function by function.
 */
#ifndef SONDE_SYMBOL_MACHO_MAP_H
#define SONDE_SYMBOL_MACHO_MAP_H

#include "image/image.h"
#include "symbol/index/facts.h"

/* The number of object files in the map of IMAGE. */
size_t macho_map_objects(const image_t *image);

/* A number that changes when an object file changes. */
uint64_t macho_map_fingerprint(const image_t *image);

/* Adds the lines and functions of all objects, or, if ONLY is not NULL, of the object of that
 * address. Skips objects that are missing or have another modification time than the map. Sets
 * *FOUND if an object was read. False when memory runs out. */
bool macho_map_read(const image_t *image, const uint64_t *only, facts_t *facts, bool *found);

#endif
