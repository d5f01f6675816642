/* SPDX-License-Identifier: MIT
 *
 * The index of an image's function symbols: built once, then searched.
 *
 * Which name an address has, where the tables leave a choice:
 *   - Function symbols count (STT_FUNC, STT_GNU_IFUNC), and untyped labels in code, which is what
 *     hand-written assembly has; not data, not mapping symbols ($a, $x), not compiler locals (.L).
 *   - A symbol with a size covers that many bytes and no more: what lies behind it and before the
 *     next symbol has no name.
 *   - A symbol without a size reaches to the next symbol or the end of its segment, as in nm's
 *     listing, but only where no symbol with a size covers the address.
 *   - Of several that cover an address, the one that starts nearest below it.
 *   - Of several that start at one address: with a size before without; function before indirect
 *     function before untyped label; global before weak before local; without a version suffix
 *     ("@") before with one; fewer leading underscores first (malloc, not __libc_malloc); then the
 *     first in the table, .symtab before .dynsym.
 *   - Mach-O has no sizes but tells where functions start and which sections are code: a symbol
 *     reaches to the next symbol, the next function or the end of its section, so that a stripped
 *     function has no name instead of its neighbour's. External before private external before
 *     local; the linker's underscore is dropped; entries for debuggers (stabs) name nothing.
 */
#ifndef SONDE_IMAGE_SYMBOLS_H
#define SONDE_IMAGE_SYMBOLS_H

#include "image/image.h"

typedef struct symbols symbols_t;

/* Builds the index of IMAGE (of .symtab and .dynsym, as far as IMAGE has them) in mapped memory of
 * its own; names are copied, so the index outlives the image. All reads are guarded: the image may
 * be live and be unloaded meanwhile. Costs time and memory in proportion to the tables, whatever is
 * in them; tables that need more than LIMIT_BYTES are refused. Async-signal-safe, locks nothing.
 * Returns 0 and *OUT, SONDE_ESTRIPPED when there is no function symbol, SONDE_EFAULT when the
 * tables cannot be read, SONDE_ENOMEM. */
int symbols_build(const image_t *image, uint64_t limit_bytes, symbols_t **out);
void symbols_free(symbols_t *symbols);

/* The symbol of ADDRESS (as linked). False when none covers it. A binary search; reads nothing but
 * the index. */
bool symbols_find(const symbols_t *symbols, uint64_t address, image_symbol_t *out);

uint64_t symbols_bytes(const symbols_t *symbols); /* of memory */
uint32_t symbols_count(const symbols_t *symbols); /* that can be found */

/* The symbols that can be found, by number below symbols_count. */
image_symbol_t symbols_at(const symbols_t *symbols, uint32_t i);

#endif
