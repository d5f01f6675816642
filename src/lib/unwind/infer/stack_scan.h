/* SPDX-License-Identifier: MIT
 *
 * A step through code of an image without any unwind information, such as musl's libc.
 */
#ifndef SONDE_UNWIND_INFER_STACK_SCAN_H
#define SONDE_UNWIND_INFER_STACK_SCAN_H

#include "unwind/cfi_step.h"

/* Searches the stack, from the stack pointer outward, for the nearest return address whose call
 * enters a function shortly before REGS->pc, directly or through one jump. The frame found is
 * likely but not certain, and must be reported as heuristic. Returns STEP_NO_RULE if there is none
 * near. Of the caller's registers only the stack pointer is known. */
unwind_step_t stack_scan_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs);

#endif
