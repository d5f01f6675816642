/* SPDX-License-Identifier: MIT
 *
 * Inference: unwinds frames whose unwind information is missing or insufficient, from their machine
 * code (infer/insn.h) and the stack.
 *
 * These functions use no libc and no memory of their own, and their time is bounded. They work in
 * the in-process library and in the command, and are async-signal-safe if MEMORY and IMAGES are.
 */
#ifndef SONDE_UNWIND_INFER_INFER_H
#define SONDE_UNWIND_INFER_INFER_H

#include "unwind/cfi.h"
#include "unwind/infer/insn.h"
#include "unwind/rule.h"

typedef enum fp_inference {
  /* Exactly one value matches. */
  FP_INFERENCE_FOUND,
  /* No value matches: the frame has an unknown form, or the stack is damaged. */
  FP_INFERENCE_NONE,
  /* More than one value matches. */
  FP_INFERENCE_AMBIGUOUS,
  /* The stack is too large to search. */
  FP_INFERENCE_TOO_LARGE,
} fp_inference_t;

#define FP_INFERENCE_STACK_BYTES_MAX (1u << 20)

/* Infers the frame register of a thread that was not stopped. /proc/PID/task/TID/syscall reports a
 * blocked thread's stack pointer and pc, and no other register. That suffices for each frame whose
 * rule uses the stack pointer. For a frame whose CFA counts from the frame register, where no inner
 * frame saved that register, this function finds the slot of the stack that the register points to.
 *
 * REGS are the registers of a frame for which cfi_step returned STEP_UNKNOWN_REGISTER: the stack
 * pointer is known, the frame register is not. The stack ends at STACK_END (one past its last byte)
 * and must be readable. EXACT is as for cfi_step. On FP_INFERENCE_FOUND, sets the frame register in
 * REGS. */
fp_inference_t infer_frame_pointer(machine_t machine, memory_t *memory, images_t *images,
                                   regs_t *regs, bool exact, uint64_t stack_end);

#define INFER_TAIL_CALLS_MAX 4

/* Reconstructs tail calls. A function that ends with a call may jump instead, after it released its
 * frame. Such a function has no frame on the stack. FUNCTION returns to RETURN_ADDRESS, but the
 * call before that address may name another function. Writes the addresses after the jumps that led
 * from that function to FUNCTION to PCS, innermost first. Returns their number; 0 if FUNCTION was
 * called directly or through a pointer; -1 if more than one path leads to it or the path is not
 * visible in the code. */
int infer_tail_calls(const insn_code_t *code, uint64_t return_address, insn_range_t function,
                     uint64_t pcs[INFER_TAIL_CALLS_MAX]);

/* Infers the row at PC (a run-time address of IMAGE) of aarch64 code without call frame
 * information: the stubs of procedure linkage tables, _init and _fini, the start-up code that the
 * compiler links, small assembly. Unless EXACT, PC is a return address. The bounds of its function
 * are the nearest instructions after which execution never continues. Returns 0, or SONDE_ENOTFOUND
 * if the code before PC and the code after it do not agree on what is on the stack. */
int infer_row(const image_t *image, memory_t *memory, uint64_t pc, bool exact, cfi_row_t *row);

/* Makes a step through x86_64 code of an image that has no rule: assembly, or a C library without
 * unwind information. Executes the code from REGS->pc to a return, as far as it concerns the stack
 * (infer/return_x86_64.c), and verifies the return address. The frame found is very likely but not
 * certain. Of the caller's registers those are known that a call preserves. Returns STEP_CALLER;
 * STEP_UNKNOWN_REGISTER if more registers could help; otherwise STEP_NO_RULE. *RULE is the rule of
 * kind RULE_INFERRED for the next time, or RULE_NONE if the result depends on more than the pc. */
unwind_step_t infer_return(machine_t machine, memory_t *memory, images_t *images, regs_t *regs,
                           bool exact, rule_t *rule);

/* Makes a step through code of an image without any unwind information, such as musl's libc.
 * Searches the stack, from the stack pointer outward, for the nearest return address whose call
 * enters a function shortly before REGS->pc, directly or through one jump. The frame found is
 * likely but not certain, and must be reported as heuristic. Returns STEP_NO_RULE if there is none
 * near. Of the caller's registers only the stack pointer is known. */
unwind_step_t infer_by_scan(machine_t machine, memory_t *memory, images_t *images, regs_t *regs);

#endif
