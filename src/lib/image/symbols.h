/* SPDX-License-Identifier: MIT
 *
 * The index of an image's function symbols: built once, then searched.
 *
 * These rules choose the name of an address:
 *   - Function symbols count (STT_FUNC, STT_GNU_IFUNC), and untyped labels in code, which
 *     hand-written assembly has. Data, mapping symbols ($a, $x) and compiler locals (.L) do not
 *     count.
 *   - A symbol with a size covers that many bytes. Addresses between its end and the next symbol
 *     have no name.
 *   - A symbol without a size reaches to the next symbol or to the end of its segment, as in the
 *     output of nm. It applies only where no symbol with a size covers the address.
 *   - If several symbols cover an address, the one that starts nearest below it applies.
 *   - If several start at one address: the order is: symbols with a size first; function, indirect
 *     function, untyped label; global, weak, local; symbols without a version suffix ("@") first;
 *     fewer leading underscores first (malloc, not __libc_malloc); the order in the table, .symtab
 *     before .dynsym.
 *   - Mach-O symbols have no sizes, but the file lists where functions start and which sections are
 *     code. A symbol reaches to the next symbol, the next function or the end of its section. So a
 *     stripped function has no name, instead of the name of its neighbor. External symbols come
 *     before private external ones, and these before local ones. The linker's underscore is
 *     dropped. Entries for debuggers (stabs) are ignored.
 */
#ifndef SONDE_IMAGE_SYMBOLS_H
#define SONDE_IMAGE_SYMBOLS_H

#include "image/image.h"

typedef struct symbols symbols_t;

/* Builds the index of IMAGE from its .symtab and .dynsym, in mapped memory of its own. Names are
 * copied, so the index remains valid without the image. All reads are guarded, since a live image
 * may be unloaded meanwhile. Time and memory are proportional to the size of the tables, whatever
 * their contents; tables that need more than LIMIT_BYTES are refused. Async-signal-safe; takes no
 * lock. Returns 0 and *OUT, SONDE_ESTRIPPED if there is no function symbol, SONDE_EFAULT if the
 * tables cannot be read, or SONDE_ENOMEM. */
int symbols_build(const image_t *image, uint64_t limit_bytes, symbols_t **out);
void symbols_free(symbols_t *symbols);

/* Finds the symbol of ADDRESS (as linked). Returns false if no symbol covers it. A binary search
 * that reads only the index. */
bool symbols_find(const symbols_t *symbols, uint64_t address, image_symbol_t *out);

/* The memory of the index in bytes, and the number of its symbols. */
uint64_t symbols_bytes(const symbols_t *symbols);
uint32_t symbols_count(const symbols_t *symbols);

/* Symbol number I, which is below symbols_count. */
image_symbol_t symbols_at(const symbols_t *symbols, uint32_t i);

#endif
