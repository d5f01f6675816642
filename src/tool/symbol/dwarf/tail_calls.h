/* SPDX-License-Identifier: MIT
 *
 * Reconstructs frames that tail calls removed. A function that ends in a jump to another has no
 * frame afterwards, so the stack shows the callee as called by the caller's caller.
 *
 * Compilers describe call sites (DWARF 5 section 3.4; DW_TAG_GNU_call_site before). If the call
 * before a return address names another function than the one that runs, and exactly one chain of
 * tail calls leads from the named function to the running one, the functions of the chain ran in
 * between. With no chain, or several, nothing is reported. One thread uses a handle.
 */
#ifndef SONDE_SYMBOL_DWARF_TAIL_CALLS_H
#define SONDE_SYMBOL_DWARF_TAIL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#define TAIL_CALLS_MAX 8

typedef struct tail_calls tail_calls_t;

/* Opens the debug information of the file PATH. NULL when it has none or memory runs out. */
tail_calls_t *tail_calls_open(const char *path);
void tail_calls_close(tail_calls_t *tail_calls);

/* The tail calls between the call before RETURN_ADDRESS and the function that starts at ENTRY: the
 * address after each jump, innermost first. Addresses are as linked. Returns their number, at most
 * TAIL_CALLS_MAX; 0 when there were none or they are ambiguous. */
int tail_calls_between(tail_calls_t *tail_calls, uint64_t return_address, uint64_t entry,
                       uint64_t pcs[TAIL_CALLS_MAX]);

#endif
