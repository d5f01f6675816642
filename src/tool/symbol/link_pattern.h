/* SPDX-License-Identifier: MIT
 *
 * From patterns of names as reports print them to patterns of linker names, which the agent
 * matches: "net::Socket::read" to "_ZN3net6Socket4readE*" and the forms of other compilers.
 */
#ifndef SONDE_SYMBOL_LINK_PATTERN_H
#define SONDE_SYMBOL_LINK_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* Writes PATTERN, a list of globs separated by commas (--trace), to OUT. A glob with "::" or "("
 * names a function of C++ or Rust and becomes the globs of its linker names; others are copied. The
 * arguments in parentheses do not count. False if OUT is too small. */
bool link_pattern(const char *pattern, char *out, size_t size);

#endif
