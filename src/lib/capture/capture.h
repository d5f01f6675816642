/* SPDX-License-Identifier: MIT
 *
 * Where a capture of the calling thread starts, and what it may fall back to.
 */
#ifndef SONDE_CAPTURE_CAPTURE_H
#define SONDE_CAPTURE_CAPTURE_H

#include "capture/thread_state.h"

/* The frame that has PC, SP and FP once the function just entered has returned. P must not be
 * copied afterwards: it points into itself. Set field by field: gcc clears a whole position by a
 * string instruction, which begins slowly. */
static ALWAYS_INLINE void position_after_return(position_t *p, uint64_t pc, uint64_t sp,
                                                uint64_t fp) {
  p->pc = p->raw = pc;
  p->exact = false;
  p->sp = sp;
  p->fp_at = &p->fp_value;
  p->fp_value = fp;
  p->lr = 0;
#if defined(__x86_64__)
  p->slot = sp - 8; /* the call pushed it, so it is there */
#else
  p->slot = 0;
#endif
  p->flags = 0;
  p->slow_sp = 0;
  p->slow_steps = 0;
}

/* The frame that a signal interrupted. */
static inline void position_of_context(position_t *p, const void *ucontext) {
  arch_frame_t frame = arch_context_frame(ucontext);
  *p = (position_t){.pc = frame.pc,
                    .raw = frame.pc,
                    .exact = true,
                    .sp = frame.sp,
                    .fp_value = frame.fp,
                    .lr = frame.lr};
  p->fp_at = &p->fp_value;
}

/* sonde_capture, for a caller that has PC, SP and FP once the public function has returned. */
HIDDEN int capture_here(sonde_capture_t *capture, uint64_t pc, uint64_t sp, uint64_t fp);

/* Finishes CAPTURE by the full walker with every register known: those of UCONTEXT, or, when it is
 * NULL, the calling thread's own as they will be in the frame whose stack pointer is SP. For stacks
 * with a frame whose row needs more than the stack and frame pointer. EXACT_SET, unless NULL, is a
 * zeroed set of CAPTURE->max bits that gets a bit for each pc that is exact. */
void capture_with_registers(const void *ucontext, uint64_t sp, sonde_capture_t *capture,
                            uint64_t *exact_set);

#endif
