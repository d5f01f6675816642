/* SPDX-License-Identifier: MIT
 *
 * Linker names as their language writes them.
 */
#ifndef SONDE_SYMBOL_DEMANGLE_H
#define SONDE_SYMBOL_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* A demangled name longer than this stays raw: no reader wants it, and a hostile name of a few
 * bytes can stand for one of gigabytes. Raw names longer than a quarter of it are not tried. */
#define DEMANGLE_MAX 32768

/* Writes the demangled form of RAW to OUT (SIZE bytes, ends with a 0) and returns true, or returns
 * false when RAW is no mangled name (C, Objective-C) or its form does not fit. */
bool demangle(const char *raw, char *out, size_t size);

#endif
