/* SPDX-License-Identifier: MIT
 *
 * The Perl interpreters that run on a native thread.
 *
 * The first interpreter of a process is in a variable, PL_curinterp. Those of further threads
 * (`threads`), and those of programs that contain several, are found on the native stack, where
 * Perl's functions keep the address of their interpreter. The innermost environment of an
 * interpreter that runs is on the same stack.
 */
#ifndef SONDE_TARGET_INTERPRETER_PERL_RUNNING_H
#define SONDE_TARGET_INTERPRETER_PERL_RUNNING_H

#include "target/interpreter/interpreter.h"
#include "target/interpreter/perl/blocks.h"

#define PERL_RUNNING_MAX 64

typedef struct perl_running {
  /* all that were found before, on any thread */
  uint64_t known[PERL_RUNNING_MAX];
  size_t known_count;
  /* those of the thread that was searched last, innermost first */
  uint64_t items[PERL_RUNNING_MAX];
  size_t count;
} perl_running_t;

/* The native stack that begins at the stack pointer of SELF. */
perl_range_t perl_stack_of(const interpreter_t *self);

/* Finds the interpreters that run on STACK. FIRST: the one in PL_curinterp, or 0. */
void perl_running_find(perl_running_t *running, perl_pages_t *pages, const perl_layout_t *layout,
                       uint64_t first, const perl_range_t *stack);

#endif
