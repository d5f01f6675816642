/* SPDX-License-Identifier: MIT
 *
 * Where Perl 5.36 keeps its frames: offsets of fields in bytes, for 64-bit builds with threads, as
 * Debian's.
 *
 * The structures are constant within a minor version; a build with another configuration has a
 * structure PerlInterpreter of another size (PL_interp_size). Source of the table: offsetof in the
 * headers of Debian's libperl5.36 for amd64 and arm64: intrpvar.h, cop.h, op.h, cv.h, gv.h, hv.h,
 * sv.h. PerlInterpreter contains a jmp_buf, so its last fields depend on the processor.
 */
#ifndef SONDE_TARGET_INTERPRETER_PERL_LAYOUT_H
#define SONDE_TARGET_INTERPRETER_PERL_LAYOUT_H

#include <stdint.h>

/* Of PerlInterpreter, by processor. */
typedef struct perl_layout {
  /* PL_interp_size: the whole structure */
  uint16_t bytes;
  /* the innermost environment (JMPENV), and the outermost one, which is a part of the structure */
  uint16_t environment, outermost;
  /* &DB::sub of the debugger (-d) */
  uint16_t debugger;
  uint16_t evaluator, phase;
} perl_layout_t;

#define PERL_LAYOUT_X86_64                                                                         \
  { 3768, 760, 768, 1656, 2288, 2512 }
#define PERL_LAYOUT_AARCH64                                                                        \
  { 3864, 744, 752, 1752, 2384, 2608 }

enum {
  /* PerlInterpreter */
  PERL_OPERATION = 8,
  /* the array of marks, and its last one: where the arguments of a function begin */
  PERL_MARKS = 104,
  PERL_LAST_MARK = 112,
  PERL_STATEMENT = 208,
  PERL_STACK = 224,
  /* the array of the main stack's values */
  PERL_MAIN_VALUES = 232,
  /* the variables of the function that runs */
  PERL_VARIABLES = 288,
  PERL_FIRST_BYTES = 296,
  /* PERL_SI: a stack of blocks */
  PERL_STACK_VALUES = 0,
  PERL_STACK_BLOCKS = 8,
  PERL_STACK_OUTER = 16,
  PERL_STACK_TOP = 32,
  PERL_STACK_MOST = 36,
  /* the innermost block that is a frame */
  PERL_STACK_TOP_FRAME = 40,
  PERL_STACK_TYPE = 44,
  PERL_STACK_BYTES = 48,
  /* PERL_CONTEXT: a block */
  PERL_BLOCK_TYPE = 0,
  PERL_BLOCK_DETAIL = 2,
  PERL_BLOCK_MARKS = 12, /* how many there were before it */
  PERL_BLOCK_STATEMENT = 16,
  PERL_BLOCK_RETURN = 48,
  PERL_BLOCK_FILE = 64,      /* of a file that is executed: its name */
  PERL_BLOCK_VARIABLES = 64, /* of a function: those of its caller */
  PERL_BLOCK_CODE = 72,      /* of a function */
  PERL_BLOCK_TEXT = 88,      /* the code of a text or file that is executed */
  PERL_BLOCK_ENVIRONMENT = 96,
  PERL_BLOCK_BYTES = 104,
  /* OP, and COP: an operation, and one that begins a statement */
  PERL_OP_NEXT = 0,
  PERL_OP_SIBLING = 8, /* of the last sibling: the parent */
  PERL_OP_TARGET = 24,
  PERL_OP_TYPE = 32,
  PERL_OP_FLAGS = 34,
  PERL_OP_FIRST = 40,
  PERL_OP_BYTES = 48,
  PERL_STATEMENT_LINE = 36,
  PERL_STATEMENT_FILE = 48,
  PERL_STATEMENT_BYTES = 56,
  /* SV: a value */
  PERL_VALUE_BODY = 0,
  PERL_VALUE_FLAGS = 12,
  PERL_VALUE_DATA = 16,
  PERL_VALUE_BYTES = 24,
  PERL_TEXT_LENGTH = 16,
  /* XPVCV: code */
  PERL_CODE_PACKAGE = 32,
  PERL_CODE_START = 40,
  PERL_CODE_NAME = 56,
  PERL_CODE_FLAGS = 92,
  PERL_CODE_DEPTH = 96, /* how many calls of it run; 0 while it is compiled */
  PERL_CODE_BYTES = 100,
  /* XPVGV and GP: a glob */
  PERL_GLOB_NAME = 32,
  PERL_GLOB_PACKAGE = 40,
  PERL_GLOB_BYTES = 48,
  PERL_GLOB_EFFECTIVE = 56,
  /* XPVHV, of a package */
  PERL_PACKAGE_NAME = 32,
  PERL_PACKAGE_NAME_COUNT = 60,
  PERL_PACKAGE_BYTES = 64,
  /* HEK: a name */
  PERL_NAME_LENGTH = 4,
  PERL_NAME_TEXT = 8,
};

/* Types of blocks, and flags of some. */
#define PERL_BLOCK_TYPES    0x0fu
#define PERL_BLOCK_SORT     0u /* `sort` with a block */
#define PERL_BLOCK_PLAIN    2u
#define PERL_BLOCK_FUNCTION 9u
#define PERL_BLOCK_FORMAT   10u
#define PERL_BLOCK_EVAL     11u
#define PERL_BLOCK_DEFER    13u
/* called again and again by C, as by sort or first of List::Util */
#define PERL_FUNCTION_IS_REPEATED 0x10u
/* code in a regular expression; the second time: of the function that has the expression */
#define PERL_FUNCTION_OF_PATTERN 0x40u
#define PERL_FUNCTION_IS_FAKE    0x80u
#define PERL_EVAL_IS_TRY         0x80u

/* The type of the operation that began an eval is in the detail of its block. */
#define PERL_DETAIL_SHIFT 7

#define PERL_MAIN_STACK  1
#define PERL_PHASE_START 1u

/* Types of operations. */
#define PERL_OP_TYPES     0x1ffu
#define PERL_OP_HAS_NEXT  0x4000u
#define PERL_OP_HAS_CHILD 4u
enum {
  PERL_OP_NULL = 0,
  PERL_OP_ENTERSUB = 184,
  PERL_OP_NEXTSTATE = 195,
  PERL_OP_DBSTATE = 196,
  PERL_OP_SCOPE = 200,
  PERL_OP_LAST = 206, /* the first of: last, next, redo, dump, goto, exit */
  PERL_OP_EXIT = 211,
  PERL_OP_REQUIRE = 342,
  PERL_OP_DOFILE = 343,
  PERL_OP_ENTEREVAL = 345,
  PERL_OP_LEAVEEVAL = 346,
  PERL_OP_ENTERTRY = 347,
  PERL_OP_ENTERTRYCATCH = 400,
};

/* Types of values, and flags. */
#define PERL_VALUE_TYPES     0xffu
#define PERL_VALUE_GLOB      9u
#define PERL_VALUE_SCALAR    10u /* of a glob, too (PVLV) */
#define PERL_VALUE_HASH      12u
#define PERL_VALUE_CODE      13u
#define PERL_HAS_TEXT        0x400u
#define PERL_IS_GLOB         0xc000u /* of which only the second bit is set */
#define PERL_IS_GLOB_VALUE   0x8000u
#define PERL_IS_PACKAGE      0x2000000u
#define PERL_CODE_IS_NAMED   0x8000u
#define PERL_CODE_IS_LEXICAL 0x10000u

#endif
