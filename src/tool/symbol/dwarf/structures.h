/* SPDX-License-Identifier: MIT
 *
 * Where the members of structures are, and the addresses of global variables, by their names in
 * DWARF: for data of a runtime whose layout differs from version to version.
 */
#ifndef SONDE_SYMBOL_DWARF_STRUCTURES_H
#define SONDE_SYMBOL_DWARF_STRUCTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct structure_member {
  const char *structure, *path; /* "runtime.g", "sched.sp" */
  uint64_t offset;
  bool is_known;
} structure_member_t;

typedef struct structure_variable {
  const char *name;
  uint64_t address; /* of the file */
  uint64_t size;    /* of its type */
  bool is_known;
} structure_variable_t;

/* Looks the MEMBERS and VARIABLES up in the debug information of the file PATH. Returns whether all
 * are known. */
bool structures_find(const char *path, structure_member_t *members, size_t member_count,
                     structure_variable_t *variables, size_t variable_count);

#endif
