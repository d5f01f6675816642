/* SPDX-License-Identifier: MIT
 *
 * From patterns of names as reports print them to patterns of linker names, which the agent
 * matches: "net::Socket::read" to "_ZN3net6Socket4readE*" and the forms of other compilers.
 */
#ifndef SONDE_SYMBOL_LINK_PATTERN_H
#define SONDE_SYMBOL_LINK_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* Writes PATTERN, a list of globs separated by commas (--trace), to OUT. A name of a function of
 * C++ or Rust becomes the globs of its linker names; a name that C may have, too, is copied and
 * becomes globs. Arguments of functions and templates do not count. A name without a library and
 * without wildcards becomes globs for functions of the program ("!_ZN3net…"), too. Of functions of
 * images, a name without "::" becomes globs for the last component ("!>read"), too. Other globs are
 * copied. False if OUT is too small. */
bool link_pattern(const char *pattern, char *out, size_t size);

#endif
