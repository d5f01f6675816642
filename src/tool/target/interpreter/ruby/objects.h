/* SPDX-License-Identifier: MIT
 *
 * Ruby's objects that name functions: strings, arrays and symbols. Nothing in the program is
 * trusted: every read may fail.
 */
#ifndef SONDE_TARGET_INTERPRETER_RUBY_OBJECTS_H
#define SONDE_TARGET_INTERPRETER_RUBY_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/memory.h"

/* Reads the word at ADDRESS, which is not 0 and a multiple of 8. */
bool ruby_word(memory_t *memory, uint64_t address, uint64_t *out);

/* A copy of the string at ADDRESS with a final 0, at most 1023 bytes of it; the caller frees it.
 * NULL: it is no string, or memory runs out. */
char *ruby_text(memory_t *memory, uint64_t address);

/* Item I of the array at ADDRESS. False: there is none. */
bool ruby_item(memory_t *memory, uint64_t address, uint64_t i, uint64_t *out);

/* The table of symbols of the virtual machine at VM; 0: not found. */
uint64_t ruby_symbols(memory_t *memory, uint64_t vm);

/* The name of IDENTIFIER, as ruby_text. */
char *ruby_identifier(memory_t *memory, uint64_t symbols, uint64_t identifier);

/* The file of the path object at ADDRESS, which is a string or an array of one, as ruby_text. */
char *ruby_path(memory_t *memory, uint64_t address);

#endif
