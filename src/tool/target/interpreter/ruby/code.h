/* SPDX-License-Identifier: MIT
 *
 * What an instruction sequence (rb_iseq_t) of Ruby says: its names, and the line of an instruction.
 */
#ifndef SONDE_TARGET_INTERPRETER_RUBY_CODE_H
#define SONDE_TARGET_INTERPRETER_RUBY_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/memory.h"

/* Equal fields at one address are taken for one sequence. */
typedef struct ruby_code {
  /* of its words, each an address in the evaluator or an operand */
  uint64_t instructions, size;
  /* objects */
  uint64_t path, label;
  /* the line table: lines, how many, and the index from positions to them */
  uint64_t lines, lines_count, lines_index;
  /* the JIT compiler has code for it */
  bool is_compiled;
} ruby_code_t;

/* Reads the sequence at ADDRESS. False: it is none. */
bool ruby_code_read(memory_t *memory, uint64_t address, ruby_code_t *out);

/* Whether PC is in CODE, as a frame has it: after the instruction that it executes. */
bool ruby_code_has(const ruby_code_t *code, uint64_t pc);

/* The line of a frame with PC, which is in CODE; 0: unreadable. */
uint32_t ruby_code_line(memory_t *memory, const ruby_code_t *code, uint64_t pc);

#endif
