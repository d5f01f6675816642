/* SPDX-License-Identifier: MIT
 *
 * Frames that tail calls left out: a function that ends in a jump to another gives its frame away,
 * so the stack shows the callee as if the caller's caller had called it.
 *
 * Compilers describe call sites (DWARF 5 section 3.4; as DW_TAG_GNU_call_site before). When the
 * call before a return address names another function than the one found running, and exactly one
 * chain of tail calls leads from the one to the other, then those functions ran in between. With no
 * chain, or several, nothing is said.
 */
#ifndef SONDE_SYMBOL_DWARF_TAIL_CALLS_H
#define SONDE_SYMBOL_DWARF_TAIL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#define TAIL_CALLS_MAX 8

typedef struct tail_calls tail_calls_t;

/* Opens the debug information in the file PATH. NULL when it has none, or no memory. */
tail_calls_t *tail_calls_open(const char *path);
void tail_calls_close(tail_calls_t *tail_calls);

/* The tail calls between the call that RETURN_ADDRESS follows and the function that starts at
 * ENTRY, as addresses right behind each jump, innermost first. Addresses as linked. Returns how
 * many, at most TAIL_CALLS_MAX; 0 when there were none or it cannot be known. */
int tail_calls_between(tail_calls_t *tail_calls, uint64_t return_address, uint64_t entry,
                       uint64_t pcs[TAIL_CALLS_MAX]);

#endif
