/* SPDX-License-Identifier: MIT
 *
 * The line rows of a DWARF unit.
 */
#ifndef SONDE_SYMBOL_DWARF_LINES_H
#define SONDE_SYMBOL_DWARF_LINES_H

#include <elfutils/libdw.h>

#include "symbol/index/facts.h"

/* libdw asserts some allocations, does not check others, and omits what it has no memory for. So
 * this many bytes must be free before it is used (base/room.h). */
#define DWARF_ROOM ((uint64_t)4 << 20)

/* Code of a unit. */
typedef struct unit_range {
  uint64_t low, high;
  uint32_t unit;
} unit_range_t;

typedef struct dwarf_lines {
  Dwarf *dwarf;
  uint64_t bias;              /* added to the file's addresses */
  const unit_range_t *ranges; /* of the unit, sorted */
  size_t range_count;
  const char *folder; /* where the unit was compiled; relative paths begin there */
  uint32_t unit;
  const uint64_t *only; /* if not NULL: only the row that covers that address is added */
} dwarf_lines_t;

/* Adds the rows of UNIT to FACTS. False when memory runs out. */
bool dwarf_lines_read(const dwarf_lines_t *from, Dwarf_Die *unit, facts_t *facts);

/* Adds PATH, in FOLDER if it is relative, to the strings of FACTS. False when memory runs out. */
bool dwarf_path(facts_t *facts, const char *folder, const char *path, uint32_t *offset);

#endif
