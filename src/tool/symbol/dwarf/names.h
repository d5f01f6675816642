/* SPDX-License-Identifier: MIT
 *
 * Names of functions in DWARF.
 *
 * A function's name is its linkage name if it has one, as in C++ and Rust, else its plain name.
 * Both names may be in the abstract instance or the declaration that the function's entry refers
 * to. Each such entry is looked up once, because units repeat the same inline functions. Compilers
 * give no linkage name to functions local to a file; these get the names of their namespaces and
 * classes as a prefix. Lambdas have none, either: that of the function `run` is
 * run(int)::{lambda#1}::operator(), numbered as in linkage names.
 *
 * The table stores keys and values in its slots. base/hash.h would add a memory access per look-up,
 * and building an index does one per inlined function.
 */
#ifndef SONDE_SYMBOL_DWARF_NAMES_H
#define SONDE_SYMBOL_DWARF_NAMES_H

#include <elfutils/libdw.h>

#include "symbol/index/strings.h"

typedef struct dwarf_name {
  const void *entry; /* the bytes of the entry; NULL: free */
  uint32_t name;     /* offset in the strings; 0: none */
} dwarf_name_t;

/* The names in one unit. Begins as zeros except `strings`. */
typedef struct dwarf_names {
  string_table_t *strings;
  const void *cu; /* the unit that is read */
  dwarf_name_t *slots;
  size_t count, used;
  char path[1024]; /* the namespaces and classes around the current entry: "a::b::" */
  size_t path_size;
  Dwarf_Die function; /* that contains them; addr NULL: none */
  bool searches;      /* only a part of the unit is read: names of other entries are searched */
  int searching;      /* searches in progress */
  bool late;          /* set by dwarf_name_of: the entry may get its name later in the unit */
  bool failed;        /* memory ran out */
} dwarf_names_t;

void dwarf_names_free(dwarf_names_t *names);

/* The name of the function DIE as an offset in the strings; 0: none. Sets names->late for the call
 * of a lambda whose entry, which says in which function it is, was not noted yet. */
uint32_t dwarf_name_of(dwarf_names_t *names, Dwarf_Die *die);

/* The same at the end of the unit. */
uint32_t dwarf_name_of_late(dwarf_names_t *names, Dwarf_Die *die);

/* Stores the qualified name of the function DIE inside namespaces or classes if it has no linkage
 * name. Entries that refer to DIE do not show its scopes. */
void dwarf_names_note(dwarf_names_t *names, Dwarf_Die *die);

/* Appends the name of the namespace or class DIE to the path. */
void dwarf_names_enter(dwarf_names_t *names, Dwarf_Die *die, int tag);

#endif
