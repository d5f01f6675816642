/* SPDX-License-Identifier: MIT
 *
 * Tail-call reconstruction. A function that ends with a call may jump instead, after it released
 * its frame. Such a function has no frame on the stack. It is found in the machine code, without
 * debug information.
 */
#ifndef SONDE_UNWIND_INFER_TAIL_CALLS_H
#define SONDE_UNWIND_INFER_TAIL_CALLS_H

#include "unwind/infer/insn.h"

#define INFER_TAIL_CALLS_MAX 4

/* FUNCTION returns to RETURN_ADDRESS, but the call before that address may name another function.
 * Writes the addresses after the jumps that led from that function to FUNCTION to PCS, innermost
 * first. Returns their number; 0 if FUNCTION was called directly or through a pointer; -1 if more
 * than one path leads to it or the path is not visible in the code. */
int infer_tail_calls(const insn_code_t *code, uint64_t return_address, insn_range_t function,
                     uint64_t pcs[INFER_TAIL_CALLS_MAX]);

#endif
