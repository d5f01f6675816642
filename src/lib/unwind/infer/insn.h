/* SPDX-License-Identifier: MIT
 *
 * What machine code says about a return address: could the call before it have entered a given
 * function, and how far above the stack pointer does that function keep its frame register?
 *
 * Answers err to one side: LINK_NO is said only when it is certain.
 */
#ifndef SONDE_UNWIND_INFER_INSN_H
#define SONDE_UNWIND_INFER_INSN_H

#include "unwind/cfi_step.h"

typedef struct code_range {
  uint64_t start, end; /* run-time addresses */
} code_range_t;

typedef struct code {
  machine_t machine;
  memory_t *memory;
  images_t *images;
} code_t;

/* The function whose unwind information covers PC. False when there is none. */
bool insn_function(const code_t *code, uint64_t pc, code_range_t *function);

/* Copies SIZE bytes of code at ADDRESS. */
bool insn_read(const code_t *code, uint64_t address, void *out, size_t size);

/* PC lies in an executable segment of an image. */
bool insn_is_executable(const code_t *code, uint64_t pc);

/* Where a call or jump goes, when that can be known. */
typedef struct goal {
  bool is_known;
  uint64_t address;
} goal_t;

/* A PLT entry or a thunk that does nothing but jump: where to. ADDRESS itself when it is no such
 * thing. Unknown when the slot is not resolved yet and leads back into the PLT. */
goal_t insn_through_stub(const code_t *code, uint64_t address);

/* At PC the function has no frame: the CFA is where it was at its first instruction. A jump there
 * that leaves the function is a tail call, and no jump of a switch. */
bool insn_frame_is_gone(const code_t *code, uint64_t pc);

typedef enum jump {
  JUMP_NONE,
  JUMP_TO,        /* TO */
  JUMP_ANYWHERE,  /* through a register or memory that is not known now */
  JUMP_BY_RETURN, /* as a retpoline does it */
} jump_t;

/* Reads the 8 bytes of code P, which lie at AT, as a jump of LENGTH bytes. */
jump_t insn_jump(const code_t *code, const uint8_t *p, uint64_t at, uint64_t *to, unsigned *length);

/* The function that the call before RETURN_ADDRESS enters, stubs passed through. */
goal_t insn_target(const code_t *code, uint64_t return_address);

typedef enum link { LINK_NO, LINK_POSSIBLE, LINK_CERTAIN } link_t;

/* Could the instruction before RETURN_ADDRESS have called FUNCTION, directly, through the PLT,
 * through a pointer, or through functions that end in a jump to it? */
link_t insn_link(const code_t *code, uint64_t return_address, code_range_t function);

/* When FUNCTION, at PC, keeps its frame register at one fixed distance above the stack pointer
 * (nothing but its prologue moves the stack pointer, arguments that it pushes for a call aside):
 * that distance. */
bool insn_frame_size(const code_t *code, code_range_t function, uint64_t pc, uint64_t *bytes);

#endif
