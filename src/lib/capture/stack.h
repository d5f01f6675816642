/* SPDX-License-Identifier: MIT
 *
 * The calling thread's stack as one id, for sensors.
 *
 * A stack of up to 512 frames is kept whole. Of a deeper one the outermost 448 and the innermost 64
 * are kept, with a marker between them, so that a runaway recursion does not make new nodes for
 * ever. A stack whose end was not reached has a marker outermost. Markers are frames without an
 * image whose pc is one of STACK_PC_….
 */
#ifndef SONDE_CAPTURE_STACK_H
#define SONDE_CAPTURE_STACK_H

#include "capture/stack_table.h"
#include "capture/capture.h"

#define STACK_OUTER 448
#define STACK_INNER 64

#define STACK_PC_BROKEN                                                                            \
  FRAME_TABLE_NO_PC /* the walk ended here, before the thread's first frame                        \
                     */
#define STACK_PC_TRUNCATED FRAME_TABLE_MARKERS /* frames were left out here */

/* The id of the stack that PC, SP and FP, the registers of a function's caller, begin. Returns 0 or
 * a negative SONDE_E…, as sonde_stack_id. */
int stack_id_here(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp);

/* The id of the stack that a signal interrupted. */
int stack_id_of_context(uint32_t *id, const void *ucontext);

/* The id of a stack that is known as program counters, innermost first and that one exact, as of
 * another thread; 0 for none. Not COMPLETE: it is marked as torn. */
uint32_t stack_id_of_pcs(const uintptr_t *pcs, int count, bool complete);

#endif
