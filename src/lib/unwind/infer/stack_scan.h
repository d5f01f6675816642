/* SPDX-License-Identifier: MIT
 *
 * A step through code that an image has without any unwind information, as musl's libc.
 */
#ifndef SONDE_UNWIND_INFER_STACK_SCAN_H
#define SONDE_UNWIND_INFER_STACK_SCAN_H

#include "unwind/cfi_step.h"

/* Looks on the stack, from the stack pointer outward, for the nearest return address whose call
 * goes directly to a function close before REGS->pc, or to one that jumps there. The frame that
 * this finds is likely and not certain: it must be marked as guessed. STEP_NO_RULE when there is
 * none near. The caller's registers, the stack pointer aside, are not known. */
unwind_step_t stack_scan_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs);

#endif
