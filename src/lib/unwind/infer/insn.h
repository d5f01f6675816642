/* SPDX-License-Identifier: MIT
 *
 * Facts that machine code gives about a return address: whether the call before it could have
 * entered a given function, and how far above the stack pointer that function keeps its frame
 * register.
 *
 * INSN_MATCH_NO is returned only if it is certain.
 */
#ifndef SONDE_UNWIND_INFER_INSN_H
#define SONDE_UNWIND_INFER_INSN_H

#include "unwind/cfi.h"
#include "unwind/cfi_step.h"

typedef struct insn_range {
  /* Run-time addresses. */
  uint64_t start, end;
} insn_range_t;

typedef struct insn_code {
  machine_t machine;
  memory_t *memory;
  images_t *images;
} insn_code_t;

/* Finds the function whose unwind information covers PC. Returns false if there is none. */
bool insn_function(const insn_code_t *code, uint64_t pc, insn_range_t *function);

/* Copies SIZE bytes of code at ADDRESS. Returns false if they are unreadable. */
bool insn_read(const insn_code_t *code, uint64_t address, void *out, size_t size);

/* True if PC is in an executable segment of an image. */
bool insn_is_executable(images_t *images, uint64_t pc);

/* Finds the row of PC, a run-time address, and the slide of its image. Returns false if there is no
 * row. */
bool insn_find_row(const insn_code_t *code, uint64_t pc, uint64_t *slide, cfi_row_t *row);

/* The target of a call or jump, if it is known. */
typedef struct insn_target {
  bool is_known;
  uint64_t address;
} insn_target_t;

/* Returns where a PLT entry or a thunk that only jumps leads; ADDRESS itself if it is neither.
 * Unknown if the slot is not resolved yet and leads back into the PLT. */
insn_target_t insn_skip_stub(const insn_code_t *code, uint64_t address);

/* True if the function has no frame at PC: the CFA is where it was at its first instruction. A jump
 * there that leaves the function is a tail call and not a jump of a switch. */
bool insn_has_no_frame(const insn_code_t *code, uint64_t pc);

typedef enum insn_jump {
  INSN_JUMP_NONE,
  /* To *TO. */
  INSN_JUMP_DIRECT,
  /* Through a register or memory whose content is unknown now. */
  INSN_JUMP_INDIRECT,
  /* As a retpoline does it. */
  INSN_JUMP_RETPOLINE,
} insn_jump_t;

/* Decodes the 8 bytes of code P, which are at AT, as a jump of *LENGTH bytes. */
insn_jump_t insn_jump(const insn_code_t *code, const uint8_t *p, uint64_t at, uint64_t *to,
                      unsigned *length);

/* Returns the function that the call before RETURN_ADDRESS enters, after stubs. */
insn_target_t insn_call_target(const insn_code_t *code, uint64_t return_address);

typedef enum insn_match { INSN_MATCH_NO, INSN_MATCH_POSSIBLE, INSN_MATCH_CERTAIN } insn_match_t;

/* Decides whether the instruction before RETURN_ADDRESS could have called FUNCTION: directly,
 * through the PLT, through a pointer, or through functions that end in a jump to it. */
insn_match_t insn_call_enters(const insn_code_t *code, uint64_t return_address,
                              insn_range_t function);

/* As insn_call_enters, for a FUNCTION that is only known to contain PC. Also requires that
 * RETURN_ADDRESS is in an executable segment of an image. */
bool insn_may_return(const insn_code_t *code, uint64_t return_address, uint64_t pc);

typedef struct insn_fp_distance {
  /* Of the frame register above the stack pointer, without arguments that are pushed. */
  uint64_t bytes;
  /* The function pushes arguments for some of its calls. */
  bool varies;
} insn_fp_distance_t;

/* Gets the distance in FUNCTION at PC. Returns false unless only the prologue moves the stack
 * pointer, except for pushed arguments. */
bool insn_fp_distance(const insn_code_t *code, insn_range_t function, uint64_t pc,
                      insn_fp_distance_t *distance);

#endif
