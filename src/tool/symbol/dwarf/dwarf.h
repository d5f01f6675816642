/* SPDX-License-Identifier: MIT
 *
 * Lines and inlined functions from DWARF, unit by unit. The one place that knows libdw.
 *
 * A handle belongs to one thread; several handles of one file may be used at the same time, which
 * is how an index is built in parallel (libdw itself is not safe for threads).
 */
#ifndef SONDE_SYMBOL_DWARF_DWARF_H
#define SONDE_SYMBOL_DWARF_DWARF_H

#include "symbol/index/facts.h"

typedef struct debug_info debug_info_t;

/* The file's executable range: what lies outside is the debris of functions that the linker threw
 * away. BIAS is added to the file's addresses (a debug file may be linked elsewhere than the image
 * it describes, as after prelinking). */
typedef struct code_range {
  uint64_t low, high;
  uint64_t bias;
} code_range_t;

/* Opens the debug information of the ELF file in FD (kept by the caller). NULL when there is none.
 */
debug_info_t *debug_info_open(int fd, code_range_t code);
/* The same of the ELF file in BYTES, which are kept by the caller and not written to. */
debug_info_t *debug_info_open_bytes(const uint8_t *bytes, size_t size, code_range_t code);
void debug_info_close(debug_info_t *info);

/* How many units there are; they are known by their ordinal, from 0. */
size_t debug_info_units(debug_info_t *info);

/* Finds the unit that holds ADDRESS. */
bool debug_info_unit_of(debug_info_t *info, uint64_t address, size_t *unit);

/* Adds the facts of a unit. With ONLY not NULL, scopes that do not hold that address may be left
 * out, which is much faster. False when there is no memory; damaged parts are left out. */
bool debug_info_read(debug_info_t *info, size_t unit, const uint64_t *only, facts_t *facts);

#endif
