/* SPDX-License-Identifier: MIT
 *
 * Calls that left no frame: a function that ends by calling another one jumps to it instead, and
 * its own frame is gone before. Found in the machine code, without debug information.
 */
#ifndef SONDE_UNWIND_INFER_TAIL_CALLS_H
#define SONDE_UNWIND_INFER_TAIL_CALLS_H

#include "unwind/infer/insn.h"

#define INFER_TAIL_CALLS_MAX 4

/* The stack says that FUNCTION returns to RETURN_ADDRESS, but the call before that address may name
 * another function. Writes the addresses behind the jumps that led from the one to the other to
 * PCS, innermost first, and returns how many; 0 when FUNCTION was called itself, or through a
 * pointer; -1 when more than one way leads to it, or the way cannot be seen in the code. */
int infer_tail_calls(const insn_code_t *code, uint64_t return_address, insn_range_t function,
                     uint64_t pcs[INFER_TAIL_CALLS_MAX]);

#endif
