/* SPDX-License-Identifier: MIT
 *
 * Short forms of demangled names, for people: 'fill' for 'void fill<int>(std::vector<int> const&)'.
 *
 *   - Return types, argument lists, qualifiers, ABI tags and clone suffixes are omitted.
 *   - std::basic_string<char, …> is std::string; the same holds for the other basic_… templates.
 *   - Inline namespaces of the C++ libraries (std::__cxx11, std::__1) are omitted.
 *   - A lambda is its function and its number: run::{lambda#2}.
 *   - Template arguments are shown if they fit, else as <…>.
 *   - Then the trait of a Rust implementation is omitted, <Vec<…>>::drop, and outer namespaces:
 *     …::Parser::parse. A name that is still too long is cut.
 *
 * C++, Rust and Go names are shortened. Objective-C names and names of C are returned as they are,
 * with control characters escaped as in C.
 * Functions are pure; any thread may call them.
 */
#ifndef SONDE_SYMBOL_SHORT_NAME_H
#define SONDE_SYMBOL_SHORT_NAME_H

#include <stddef.h>

/* The largest SIZE that is ever needed for a name of LENGTH bytes. */
#define SHORT_NAME_SIZE(length) (4 * (length) + 8)

/* Writes the short form of FULL to OUT, of SIZE bytes, in at most WIDTH columns; 0: no limit.
 * A form that does not fit SIZE is cut. Returns OUT. */
char *short_name(const char *full, unsigned width, char *out, size_t size);

/* The same for text that is no function's name, such as that of a scope: it is only cut. */
char *short_text(const char *text, unsigned width, char *out, size_t size);

/* TEXT if it has no control characters; otherwise a copy in which they are escaped, valid until the
 * eighth later call and cut if it is very long. One thread uses it. */
const char *plain_text(const char *text);

#endif
