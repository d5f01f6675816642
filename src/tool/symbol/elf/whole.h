/* SPDX-License-Identifier: MIT
 *
 * Whether an ELF file is all there: a copy that ended early, or a header that was overwritten, is
 * otherwise indistinguishable from a stripped binary.
 */
#ifndef SONDE_SYMBOL_ELF_WHOLE_H
#define SONDE_SYMBOL_ELF_WHOLE_H

#include <libelf.h>

#include "symbol/symbol.h"

/* SYMBOL_NAMED when all that ELF's headers speak of lies inside its SIZE bytes; SYMBOL_TRUNCATED
 * when some of it lies beyond; SYMBOL_BAD_FILE when they speak of nothing. */
symbol_reason_t whole_check(Elf *elf, uint64_t size);

#endif
