/* SPDX-License-Identifier: MIT
 *
 * The function symbols of an ELF file: its symbol table (.symtab, else .dynsym), and names for the
 * stubs of its procedure linkage table, which no symbol table lists.
 */
#ifndef SONDE_SYMBOL_ELF_SYMTAB_H
#define SONDE_SYMBOL_ELF_SYMTAB_H

#include <libelf.h>

#include "symbol/index/facts.h"

/* Adds the symbols of ELF, with BIAS added to their addresses. YIELDS: names from the debug
 * information replace all of these symbols; they always replace symbols without type or size. ONLY,
 * if not NULL: adds only symbols that may cover that address. Sets *FOUND if the file has a full
 * table (.dynsym has only exported functions). False when memory runs out. */
bool symtab_read(Elf *elf, uint64_t bias, bool yields, const uint64_t *only, facts_t *facts,
                 bool *found);

/* The same for a file without section headers, whose .dynsym is found through its dynamic segment.
 * Adds nothing for a file with section headers. */
bool symtab_read_dynamic(Elf *elf, uint64_t code_high, facts_t *facts);

/* Adds `name@plt` for each stub of ELF (x86_64 and aarch64; nothing for other machines). ONLY, if
 * not NULL: adds only the stub that covers that address. */
bool symtab_read_plt(Elf *elf, const uint64_t *only, facts_t *facts);

#endif
