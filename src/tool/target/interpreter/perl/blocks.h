/* SPDX-License-Identifier: MIT
 *
 * The blocks and environments of a Perl interpreter that runs on a native thread.
 *
 * Perl pushes a block (PERL_CONTEXT) for a function, an eval, a loop and others. Code that is
 * called by tied variables, overloaded operators, destructors and others has a stack of blocks of
 * its own (PERL_SI), inside of the one before. An environment (JMPENV) is what an exception returns
 * to. It is a local variable of the C function that catches the exception.
 */
#ifndef SONDE_TARGET_INTERPRETER_PERL_BLOCKS_H
#define SONDE_TARGET_INTERPRETER_PERL_BLOCKS_H

#include "base/array.h"
#include "target/interpreter/perl/layout.h"
#include "target/interpreter/perl/pages.h"

/* The native stack of a thread. */
typedef struct perl_range {
  uint64_t start, end;
} perl_range_t;

typedef struct perl_block {
  /* the statement and the operation that continue after it; the operation may be 0 */
  uint64_t statement, next;
  /* of a function: its code; of an eval: the name of the file, or 0 */
  uint64_t code;
  /* of a function: the variables of its caller */
  uint64_t variables;
  /* of a function: how many marks there were before it */
  uint32_t marks;
  /* of an eval: the environment that was the innermost one when it began */
  uint64_t environment;
  /* of an eval of a text or file: its code; 0 before it is compiled */
  uint64_t text;
  /* the number of its stack, from the innermost one */
  uint32_t stack;
  uint8_t type, flags;
  /* of an eval: the type of the operation that began it */
  uint16_t operation;
} perl_block_t;

typedef struct perl_blocks {
  uint64_t interpreter, statement, operation;
  /* of the function that runs, and how many marks there are */
  uint64_t variables, marks;
  uint32_t phase;
  /* the evaluator runs the main program */
  bool has_main;
  /* functions, evals, formats, and other blocks with a call of the evaluator; innermost first */
  ARRAY(perl_block_t) items;
  /* so many of them, the innermost, have not begun */
  size_t omitted;
  /* innermost first */
  ARRAY(uint64_t) environments;
} perl_blocks_t;

/* Why blocks cannot be read; PERL_BLOCKS_READ: they were. */
typedef enum perl_blocks_status {
  PERL_BLOCKS_READ,
  PERL_BLOCKS_DAMAGED,
  /* a block is about to be pushed or popped */
  PERL_BLOCKS_BETWEEN,
  PERL_BLOCKS_DEBUGGED,
  PERL_BLOCKS_REPLACED,
  PERL_BLOCKS_MANY,
} perl_blocks_status_t;

/* Whether an interpreter at ADDRESS runs on STACK: *ENVIRONMENT, its innermost one, is there. */
bool perl_runs_on(perl_pages_t *pages, const perl_layout_t *layout, uint64_t address,
                  const perl_range_t *stack, uint64_t *environment);

/* Reads the blocks of the interpreter at ADDRESS. EVALUATOR is that of its library. */
perl_blocks_status_t perl_blocks_read(perl_pages_t *pages, const perl_layout_t *layout,
                                      uint64_t address, const perl_range_t *stack,
                                      uint64_t evaluator, perl_blocks_t *out);

void perl_blocks_free(perl_blocks_t *blocks);

#endif
