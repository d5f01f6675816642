/* SPDX-License-Identifier: MIT
 *
 * Function symbols of an ELF file: its symbol table (.symtab, else .dynsym), and names for the
 * stubs of its procedure linkage table, which no table lists.
 */
#ifndef SONDE_SYMBOL_ELF_SYMTAB_H
#define SONDE_SYMBOL_ELF_SYMTAB_H

#include <libelf.h>

#include "symbol/index/facts.h"

/* Adds the symbols of ELF; their addresses get BIAS added. YIELDS marks all of them as giving way
 * to a name from the debug information; symbols without type or size give way in any case. With
 * ONLY not NULL, only those that may cover that address. Returns false when there is no memory;
 * *FOUND becomes true when the file has a full table (.dynsym lists exported functions only). */
bool symtab_read(Elf *elf, uint64_t bias, bool yields, const uint64_t *only, facts_t *facts,
                 bool *found);

/* The same for a file without section headers, whose .dynsym only its dynamic segment leads to:
 * adds what is there, and nothing for a file with section headers. */
bool symtab_read_dynamic(Elf *elf, uint64_t code_high, facts_t *facts);

/* Adds `name@plt` for each stub of ELF. x86_64 and aarch64; elsewhere there are none. */
bool symtab_read_plt(Elf *elf, facts_t *facts);

#endif
