/* SPDX-License-Identifier: MIT
 *
 * From a module's files to the bytes of an index: all of the module, in parallel, or just what one
 * address needs.
 */
#ifndef SONDE_SYMBOL_INDEX_GATHER_H
#define SONDE_SYMBOL_INDEX_GATHER_H

#include "symbol/dwarf/dwarf.h"
#include "symbol/index/index.h"
#include "symbol/elf/sources.h"

/* The debug information of SOURCES; NULL when there is none. */
debug_info_t *gather_open_debug(const sources_t *sources);

/* What is known of ADDRESS alone. INFO may be NULL; without LINES no other debug information is
 * looked for. The caller frees the bytes; NULL: no memory. */
uint8_t *gather_address(const sources_t *sources, debug_info_t *info, bool lines, uint64_t address,
                        size_t *size);

/* Everything, read by as many threads as there are processors; without LINES only the symbols.
 * PROGRESS may be NULL; it is called on this thread with NAME. */
uint8_t *gather_module(const sources_t *sources, bool lines, symbol_progress_fn *progress,
                       const char *name, size_t *size);

#endif
