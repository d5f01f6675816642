/* SPDX-License-Identifier: MIT
 *
 * The function symbols of a Mach-O image: its symbol table, whose entries have no sizes, and names
 * for its stubs.
 */
#ifndef SONDE_SYMBOL_MACHO_SYMTAB_H
#define SONDE_SYMBOL_MACHO_SYMTAB_H

#include "image/image.h"
#include "symbol/index/facts.h"

/* Adds the symbols of IMAGE, without the linker's leading underscore, and `name@stub` for each stub
 * that calls another image. A symbol ends at the next symbol, the next function start or the end of
 * its section. ONLY, if not NULL: adds only symbols that cover that address. Sets *FOUND if the
 * image has local functions, that is, is not stripped. False when memory runs out. */
bool macho_symtab_read(const image_t *image, const uint64_t *only, facts_t *facts, bool *found);

/* The name at OFFSET of the symbol table's strings; NULL when it is damaged or too long. */
const char *macho_symtab_name(const image_t *image, uint64_t offset);

#endif
