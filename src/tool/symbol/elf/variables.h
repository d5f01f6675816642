/* SPDX-License-Identifier: MIT
 *
 * The variables of an ELF file, from its symbol table.
 */
#ifndef SONDE_SYMBOL_ELF_VARIABLES_H
#define SONDE_SYMBOL_ELF_VARIABLES_H

#include "symbol/elf/sources.h"

/* The linker's name of the variable that contains ADDRESS, valid as long as SOURCES, and the offset
 * of ADDRESS in it. NULL: no symbol says so. */
const char *variable_at(const sources_t *sources, uint64_t address, uint64_t *offset);

#endif
