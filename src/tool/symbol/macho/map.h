/* SPDX-License-Identifier: MIT
 *
 * The debug map: where the linker left the DWARF in the object files, the image's symbol table says
 * which object each function came from (stabs N_OSO and N_FUN). An object's own addresses are then
 * translated function by function.
 */
#ifndef SONDE_SYMBOL_MACHO_MAP_H
#define SONDE_SYMBOL_MACHO_MAP_H

#include "image/image.h"
#include "symbol/index/facts.h"

/* How many object files the map of IMAGE names. */
size_t macho_map_objects(const image_t *image);

/* A number that changes when one of them does. */
uint64_t macho_map_fingerprint(const image_t *image);

/* Adds the lines and functions of all objects, or with ONLY of the one that ADDRESS came from.
 * Objects that are missing, or newer than the image says, are passed over; *FOUND becomes true when
 * one was read. False when there is no memory. */
bool macho_map_read(const image_t *image, const uint64_t *only, facts_t *facts, bool *found);

#endif
