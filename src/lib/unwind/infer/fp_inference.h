/* SPDX-License-Identifier: MIT
 *
 * The frame register of a thread that was not stopped, recovered by proof.
 *
 * /proc/PID/task/TID/syscall gives a blocked thread's stack pointer and pc, and no other register.
 * That suffices for every frame whose rule counts from the stack pointer. A frame whose CFA counts
 * from the frame register, in a chain where nothing further in saved that register, needs more:
 * somewhere on the stack lies the slot that it points at, and this finds it or says that it cannot.
 *
 * No libc, no memory of its own, bounded time: usable inside a program as well as from outside.
 */
#ifndef SONDE_UNWIND_INFER_FP_INFERENCE_H
#define SONDE_UNWIND_INFER_FP_INFERENCE_H

#include "unwind/cfi_step.h"

typedef enum fp_inference {
  FP_INFERENCE_FOUND, /* exactly one value fits */
  FP_INFERENCE_NONE, /* none fits: the frame is not of a form this knows, or the stack is damaged */
  FP_INFERENCE_AMBIGUOUS, /* more than one fits */
  FP_INFERENCE_TOO_LARGE, /* the stack is too large to search */
} fp_inference_t;

#define FP_INFERENCE_STACK_BYTES_MAX (1u << 20)

/* REGS are those of a frame for which cfi_step said STEP_UNKNOWN_REGISTER; the stack pointer is
 * known, the frame register is not. The stack ends at STACK_END (one past its last byte); all of it
 * must be readable. EXACT is as for cfi_step. On FP_INFERENCE_FOUND the frame register is set in
 * REGS. */
fp_inference_t infer_frame_pointer(machine_t machine, memory_t *memory, images_t *images,
                                   regs_t *regs, bool exact, uint64_t stack_end);

#endif
