/* SPDX-License-Identifier: MIT
 *
 * The file and line of a place in Perl code. A place is a statement and one of its operations: a
 * condition of `elsif`, for example, is a part of a statement that began on an earlier line.
 */
#ifndef SONDE_TARGET_INTERPRETER_PERL_STATEMENT_H
#define SONDE_TARGET_INTERPRETER_PERL_STATEMENT_H

#include "target/interpreter/perl/pages.h"

typedef struct perl_place {
  /* the statement (COP) */
  uint64_t statement;
  /* the operation (OP), or the one after it; 0: unknown */
  uint64_t operation;
  bool is_after;
} perl_place_t;

/* Copies the name of the file of PLACE to FILE, of SIZE bytes, and sets its line; 0: none. False:
 * it is unreadable. */
bool perl_place_read(perl_pages_t *pages, const perl_place_t *place, char *file, size_t size,
                     uint32_t *line);

#endif
