/* SPDX-License-Identifier: MIT
 *
 * Names of functions in DWARF.
 *
 * A function's name is its linkage name where it has one, as it is for C++ and Rust, else its name;
 * both may stand in the abstract instance or the declaration it refers to. That name is looked up
 * once for each such entry: the same inline function is met again and again. Compilers give no
 * linkage name to functions that are local to a file; those are known by the namespaces and classes
 * they stand in.
 */
#ifndef SONDE_SYMBOL_DWARF_NAMES_H
#define SONDE_SYMBOL_DWARF_NAMES_H

#include <elfutils/libdw.h>

#include "symbol/index/strings.h"

typedef struct dwarf_name {
  const void *entry; /* the bytes of the entry; NULL: free */
  uint32_t name;     /* offset in the strings; 0: it has none */
} dwarf_name_t;

/* The names met in one unit. Zero it and set `strings`. */
typedef struct dwarf_names {
  strings_t *strings;
  const void *cu; /* the unit whose entries are read */
  dwarf_name_t *slots;
  size_t count, used;
  char path[1024]; /* the namespaces and classes around the entry that is read, "a::b::" */
  size_t path_size;
  bool failed; /* no memory */
} dwarf_names_t;

void dwarf_names_free(dwarf_names_t *names);

/* The name of the function DIE as an offset in the strings; 0: it has none. */
uint32_t dwarf_name_of(dwarf_names_t *names, Dwarf_Die *die);

/* Notes the full name of the function DIE, which stands within namespaces or classes, when it has
 * no linkage name: entries that refer to it do not show where it stands. */
void dwarf_names_note(dwarf_names_t *names, Dwarf_Die *die);

/* Adds the name of the namespace or class DIE to the path. */
void dwarf_names_enter(dwarf_names_t *names, Dwarf_Die *die, int tag);

#endif
