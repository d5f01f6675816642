/* SPDX-License-Identifier: MIT
 *
 * Call sites of a function, as compilers describe them in optimized code: DW_TAG_call_site of DWARF
 * 5, section 3.4; DW_TAG_GNU_call_site before.
 */
#ifndef SONDE_SYMBOL_DWARF_CALL_SITES_H
#define SONDE_SYMBOL_DWARF_CALL_SITES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct call_site {
  uint64_t after; /* the address after the call or jump, as linked */
  Dwarf_Die target;
  bool has_target, is_tail;
} call_site_t;

/* Calls VISIT for each call site in FUNCTION and in the functions that are inlined into it, until
 * it returns false. Returns false then. */
bool call_sites_each(Dwarf_Die *function, bool (*visit)(const call_site_t *site, void *context),
                     void *context);

#endif
