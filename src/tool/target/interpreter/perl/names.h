/* SPDX-License-Identifier: MIT
 *
 * Names of functions, files and packages of a Perl program.
 */
#ifndef SONDE_TARGET_INTERPRETER_PERL_NAMES_H
#define SONDE_TARGET_INTERPRETER_PERL_NAMES_H

#include "target/interpreter/perl/pages.h"

/* Appends to TEXT, of SIZE bytes, the name that `caller` has for the function whose code (CV) is at
 * ADDRESS: "main::run". False: it is unreadable or longer. */
bool perl_append_function(perl_pages_t *pages, uint64_t address, char *text, size_t size);

/* Appends the text of the value (SV) at ADDRESS. */
bool perl_append_value(perl_pages_t *pages, uint64_t address, char *text, size_t size);

#endif
