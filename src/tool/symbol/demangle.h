/* SPDX-License-Identifier: MIT
 *
 * Demangles linker names. One thread uses it.
 */
#ifndef SONDE_SYMBOL_DEMANGLE_H
#define SONDE_SYMBOL_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* The limit of a demangled name in bytes; a longer one stays raw. A hostile name of a few bytes can
 * expand to gigabytes. Raw names longer than a quarter of the limit are not demangled. */
#define DEMANGLE_MAX 32768

/* Writes the demangled form of RAW to OUT (SIZE bytes, terminated). False when RAW is not a mangled
 * name (C, Objective-C) or the result does not fit. */
bool demangle(const char *raw, char *out, size_t size);

#endif
