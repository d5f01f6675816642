/* SPDX-License-Identifier: MIT
 *
 * Lines and inlined functions from DWARF, unit by unit, through libdw.
 *
 * One thread uses a handle, because libdw is not thread-safe. Several handles of one file may be
 * used at the same time; the index is built in parallel this way.
 */
#ifndef SONDE_SYMBOL_DWARF_DWARF_H
#define SONDE_SYMBOL_DWARF_DWARF_H

#include "symbol/index/facts.h"

typedef struct debug_info debug_info_t;

/* The file's executable range; entries outside belong to functions that the linker discarded. BIAS
 * is added to the file's addresses: a debug file may be linked at another address than its image,
 * as after prelinking. */
typedef struct code_range {
  uint64_t low, high;
  uint64_t bias;
} code_range_t;

/* Opens the debug information of the ELF file FD, which the caller keeps open. NULL when there is
 * none. */
debug_info_t *debug_info_open(int fd, code_range_t code);
/* The same of an ELF file in memory. The caller keeps BYTES; they are not written. */
debug_info_t *debug_info_open_bytes(const uint8_t *bytes, size_t size, code_range_t code);
void debug_info_close(debug_info_t *info);

/* The number of units. A unit's ordinal, from 0, identifies it. */
size_t debug_info_units(const debug_info_t *info);

/* The number of units that were read with this handle. */
size_t debug_info_units_read(const debug_info_t *info);

/* Sets *UNIT to the unit that contains ADDRESS. */
bool debug_info_unit_of(debug_info_t *info, uint64_t address, size_t *unit);

/* Adds the facts of a unit. ONLY, if not NULL: may omit scopes without that address, which is much
 * faster. Omits damaged parts. False when memory runs out. */
bool debug_info_read(debug_info_t *info, size_t unit, const uint64_t *only, facts_t *facts);

#endif
