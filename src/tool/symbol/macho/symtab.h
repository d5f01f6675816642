/* SPDX-License-Identifier: MIT
 *
 * Function symbols of a Mach-O image: its symbol table, bounded by what tells where functions
 * begin, and names for its stubs.
 */
#ifndef SONDE_SYMBOL_MACHO_SYMTAB_H
#define SONDE_SYMBOL_MACHO_SYMTAB_H

#include "image/image.h"
#include "symbol/index/facts.h"

/* Adds the symbols of IMAGE, without the linker's leading underscore, and `name@stub` for each stub
 * that calls another image. A symbol reaches to the next one, the next function or the end of its
 * section. With ONLY not NULL, only those that cover that address. Returns false when there is no
 * memory; *FOUND becomes true when the image names its own local functions, that is, when it is not
 * stripped. */
bool macho_symtab_read(const image_t *image, const uint64_t *only, facts_t *facts, bool *found);

#endif
