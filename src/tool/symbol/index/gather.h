/* SPDX-License-Identifier: MIT
 *
 * Reads a module's files and encodes an index: of the whole module, in parallel, or only of the
 * facts that one address needs.
 */
#ifndef SONDE_SYMBOL_INDEX_GATHER_H
#define SONDE_SYMBOL_INDEX_GATHER_H

#include "symbol/dwarf/dwarf.h"
#include "symbol/index/index.h"
#include "symbol/elf/sources.h"

/* Opens the debug information of SOURCES. NULL when there is none. */
debug_info_t *gather_open_debug(const sources_t *sources);

/* An index of the facts about ADDRESS. INFO may be NULL; without LINES no other debug information
 * is searched. The caller frees the bytes. NULL when memory runs out. */
uint8_t *gather_address(const sources_t *sources, debug_info_t *info, bool lines, uint64_t address,
                        size_t *size);

/* An index of the module, read by as many threads as there are processors; without LINES only of
 * its symbols. PROGRESS may be NULL; it is called on this thread with NAME. */
uint8_t *gather_module(const sources_t *sources, bool lines, symbol_progress_fn *progress,
                       const char *name, size_t *size);

#endif
