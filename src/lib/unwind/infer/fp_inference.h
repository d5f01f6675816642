/* SPDX-License-Identifier: MIT
 *
 * Infers the frame register of a thread that was not stopped.
 *
 * /proc/PID/task/TID/syscall reports a blocked thread's stack pointer and pc, and no other
 * register. That suffices for each frame whose rule uses the stack pointer. A frame whose CFA
 * counts from the frame register, where no inner frame saved that register, needs more. The
 * register points to some slot of the stack; this function finds that slot or fails.
 *
 * It uses no libc and no memory of its own, and its time is bounded. It works in the in-process
 * library and in the command.
 */
#ifndef SONDE_UNWIND_INFER_FP_INFERENCE_H
#define SONDE_UNWIND_INFER_FP_INFERENCE_H

#include "unwind/cfi_step.h"

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

/* REGS are the registers of a frame for which cfi_step returned STEP_UNKNOWN_REGISTER: the stack
 * pointer is known, the frame register is not. The stack ends at STACK_END (one past its last byte)
 * and must be readable. EXACT is as for cfi_step. On FP_INFERENCE_FOUND, sets the frame register in
 * REGS. */
fp_inference_t infer_frame_pointer(machine_t machine, memory_t *memory, images_t *images,
                                   regs_t *regs, bool exact, uint64_t stack_end);

#endif
