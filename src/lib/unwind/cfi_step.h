/* SPDX-License-Identifier: MIT
 *
 * The full walker: steps with all registers, frame by frame, by interpreting the call frame
 * information of the image that contains each pc. It serves other processes, core files and frames
 * whose rule the fast walker cannot apply. The tests use it as the reference for the fast walker.
 *
 * All functions are async-signal-safe if MEMORY and IMAGES are.
 */
#ifndef SONDE_UNWIND_CFI_STEP_H
#define SONDE_UNWIND_CFI_STEP_H

#include "image/image.h"
#include "unwind/machine.h"
#include "unwind/memory.h"
#include "unwind/rule.h"

/* Finds the image of a pc. Returns NULL if no image contains PC. */
typedef struct images images_t;
struct images {
  const image_t *(*find)(images_t *self, uint64_t pc);
};

typedef enum unwind_step {
  /* The registers are now the caller's. */
  STEP_CALLER = 0,
  /* As STEP_CALLER, and the frame left was a signal frame, so the new pc is exact. */
  STEP_SIGNAL = 1,
  /* The frame was the thread's first: its return address is undefined. */
  STEP_END = 2,
  /* No call frame information covers the pc. */
  STEP_NO_RULE = 3,
  /* Memory that the rule needs could not be read. */
  STEP_FAULT = 4,
  /* The rule needs an unknown register. */
  STEP_UNKNOWN_REGISTER = 5,
  /* The information is malformed, or the frame is impossible (the CFA did not grow). */
  STEP_BAD = 6,
} unwind_step_t;

/* Makes one step outward. REGS holds the frame's registers and is replaced by the caller's. EXACT
 * says that regs->pc is exact (an innermost or interrupted frame) and not a return address, whose
 * call is before it. On any result but STEP_CALLER and STEP_SIGNAL, REGS is unchanged. */
unwind_step_t cfi_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs,
                       bool exact);

/* Makes one step by frame pointer, for code without rules. The frame register must point, no
 * further in than the stack pointer, at a saved frame register and a return address into executable
 * code after a call. */
unwind_step_t frame_pointer_step(machine_t machine, memory_t *memory, images_t *images,
                                 regs_t *regs);

/* Makes one step for code without rules: as its instructions show (infer_return, which explains
 * RULE), by frame pointer, or to the program's entry point if that is near. */
unwind_step_t inferred_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs,
                            bool exact, rule_t *rule);

/* Makes one step for an innermost or interrupted frame whose pc is not code, as after a call
 * through a null pointer: only the return address was pushed. Preserves every register. */
unwind_step_t just_called_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs);

#endif
