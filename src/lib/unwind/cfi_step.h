/* SPDX-License-Identifier: MIT
 *
 * The full walker: every register, frame by frame, by interpreting the call frame information of
 * the image that holds each pc. It serves other processes and core files, the frames whose rule
 * the fast walker cannot express, and tests as the reference for the fast walker.
 */
#ifndef SONDE_UNWIND_CFI_STEP_H
#define SONDE_UNWIND_CFI_STEP_H

#include "image/image.h"
#include "unwind/machine.h"
#include "unwind/memory.h"

/* How the walker finds the image of a pc. Returns NULL when no image holds PC. */
typedef struct images images_t;
struct images {
  const image_t *(*find)(images_t *self, uint64_t pc);
};

typedef enum unwind_step {
  STEP_CALLER = 0,  /* the registers are now those of the caller */
  STEP_SIGNAL = 1,  /* likewise, and the frame left was a signal frame: the new pc is exact */
  STEP_END = 2,     /* the frame was the thread's first: its return address is undefined */
  STEP_NO_RULE = 3, /* no call frame information covers the pc */
  STEP_FAULT = 4,   /* memory that the rule needs could not be read */
  STEP_UNKNOWN_REGISTER = 5, /* the rule needs a register that is not known */
  STEP_BAD =
      6, /* the information is malformed, or the frame is impossible (the CFA did not grow) */
} unwind_step_t;

/* One step outward. REGS holds the frame's registers and is replaced by the caller's. EXACT says
 * that regs->pc is the pc itself (innermost frame, or interrupted by a signal) and not a return
 * address, whose call lies before it. On any result but STEP_CALLER and STEP_SIGNAL, REGS is
 * unchanged. */
unwind_step_t cfi_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs,
                       bool exact);

/* One step by frame pointer, for code without rules: the frame register must point, no further in
 * than the stack pointer, at a saved frame register and a return address into executable code. */
unwind_step_t frame_pointer_step(machine_t machine, memory_t *memory, images_t *images,
                                 regs_t *regs);

/* One step for an innermost (or interrupted) frame whose pc is no code at all, as after a call
 * through a null pointer: nothing has been pushed but the return address. Keeps every register. */
unwind_step_t just_called_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs);

#endif
