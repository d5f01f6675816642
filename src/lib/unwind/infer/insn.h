/* SPDX-License-Identifier: MIT
 *
 * What machine code says about a return address: could the call before it have entered a given
 * function, and how far above the stack pointer does that function keep its frame register?
 *
 * Answers err to one side: INSN_MATCH_NO is said only when it is certain.
 */
#ifndef SONDE_UNWIND_INFER_INSN_H
#define SONDE_UNWIND_INFER_INSN_H

#include "unwind/cfi_step.h"

typedef struct insn_range {
  uint64_t start, end; /* run-time addresses */
} insn_range_t;

typedef struct insn_code {
  machine_t machine;
  memory_t *memory;
  images_t *images;
} insn_code_t;

/* The function whose unwind information covers PC. False when there is none. */
bool insn_function(const insn_code_t *code, uint64_t pc, insn_range_t *function);

/* Copies SIZE bytes of code at ADDRESS. */
bool insn_read(const insn_code_t *code, uint64_t address, void *out, size_t size);

/* PC lies in an executable segment of an image. */
bool insn_is_executable(const insn_code_t *code, uint64_t pc);

/* Where a call or jump goes, when that can be known. */
typedef struct insn_target {
  bool is_known;
  uint64_t address;
} insn_target_t;

/* A PLT entry or a thunk that does nothing but jump: where to. ADDRESS itself when it is no such
 * thing. Unknown when the slot is not resolved yet and leads back into the PLT. */
insn_target_t insn_skip_stub(const insn_code_t *code, uint64_t address);

/* At PC the function has no frame: the CFA is where it was at its first instruction. A jump there
 * that leaves the function is a tail call, and no jump of a switch. */
bool insn_has_no_frame(const insn_code_t *code, uint64_t pc);

typedef enum insn_jump {
  INSN_JUMP_NONE,
  INSN_JUMP_DIRECT,    /* TO */
  INSN_JUMP_INDIRECT,  /* through a register or memory that is not known now */
  INSN_JUMP_RETPOLINE, /* as a retpoline does it */
} insn_jump_t;

/* Reads the 8 bytes of code P, which lie at AT, as a jump of LENGTH bytes. */
insn_jump_t insn_jump(const insn_code_t *code, const uint8_t *p, uint64_t at, uint64_t *to,
                      unsigned *length);

/* The function that the call before RETURN_ADDRESS enters, stubs passed through. */
insn_target_t insn_call_target(const insn_code_t *code, uint64_t return_address);

typedef enum insn_match { INSN_MATCH_NO, INSN_MATCH_POSSIBLE, INSN_MATCH_CERTAIN } insn_match_t;

/* Could the instruction before RETURN_ADDRESS have called FUNCTION, directly, through the PLT,
 * through a pointer, or through functions that end in a jump to it? */
insn_match_t insn_call_enters(const insn_code_t *code, uint64_t return_address,
                              insn_range_t function);

/* When FUNCTION, at PC, keeps its frame register at one fixed distance above the stack pointer
 * (nothing but its prologue moves the stack pointer, arguments that it pushes for a call aside):
 * that distance. */
bool insn_fp_distance(const insn_code_t *code, insn_range_t function, uint64_t pc, uint64_t *bytes);

#endif
