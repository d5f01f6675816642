/* SPDX-License-Identifier: MIT
 *
 * Which function of a program calls a function of a library, from the call sites in its debug
 * information.
 */
#ifndef SONDE_SYMBOL_DWARF_CALLERS_H
#define SONDE_SYMBOL_DWARF_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct caller {
  char name[160]; /* as the source has it, without namespaces */
  char file[256];
  uint32_t line; /* of the function; 0: unknown */
} caller_t;

/* The only function of the file PATH that calls one of NAMES, which end with NULL. False: none or
 * several do, or a part of the program has no call sites, because it was not optimized or has no
 * debug information. */
bool caller_only(const char *path, const char *const *names, caller_t *out);

#endif
