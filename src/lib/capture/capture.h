/* SPDX-License-Identifier: MIT
 *
 * Where a capture of the calling thread starts, and the fallbacks of a failed walk.
 */
#ifndef SONDE_CAPTURE_CAPTURE_H
#define SONDE_CAPTURE_CAPTURE_H

#include "capture/thread_state.h"

/* Sets P to the frame that has PC, SP and FP after the return of the function just entered. P
 * points into itself and must not be copied. Sets each field, since gcc clears a whole position_t
 * with a string instruction, which starts slowly. */
static ALWAYS_INLINE void position_after_return(position_t *p, uint64_t pc, uint64_t sp,
                                                uint64_t fp) {
  p->pc = p->raw = pc;
  p->exact = false;
  p->sp = sp;
  p->fp_at = &p->fp_value;
  p->fp_value = fp;
  p->lr = 0;
#if defined(__x86_64__)
  p->slot = sp - 8; /* The call pushed it. */
#else
  p->slot = 0;
#endif
  p->flags = 0;
  p->slow_sp = 0;
  p->slow_steps = 0;
}

/* Sets P to FRAME, whose pc is exact. */
static inline void position_of_frame(position_t *p, arch_frame_t frame) {
  *p = (position_t){.pc = frame.pc,
                    .raw = frame.pc,
                    .exact = true,
                    .sp = frame.sp,
                    .fp_value = frame.fp,
                    .lr = frame.lr};
  p->fp_at = &p->fp_value;
}

/* Sets P to the frame that a signal interrupted. */
static inline void position_of_context(position_t *p, const void *ucontext) {
  position_of_frame(p, arch_context_frame(ucontext));
}

/* As sonde_capture, for a caller that has PC, SP and FP after the return of the public function. */
HIDDEN int capture_here(sonde_capture_t *capture, uint64_t pc, uint64_t sp, uint64_t fp);

/* Captures with all registers by cfi_step, for stacks with a frame whose row needs more than the
 * stack and frame pointer. The registers are those of UCONTEXT, or, if it is NULL, the calling
 * thread's own as they will be in the frame with stack pointer SP. EXACT_SET, unless NULL, is a
 * zeroed set of CAPTURE->max bits; the bit of each exact pc is set. */
void capture_with_registers(const void *ucontext, uint64_t sp, sonde_capture_t *capture,
                            uint64_t *exact_set);

/* Called with a frame's pc and stack pointer; EXACT: the pc is no return address. False ends the
 * walk. */
typedef bool register_frame_t(void *context, uint64_t pc, uint64_t sp, bool exact);

/* As capture_with_registers, but calls VISIT for each frame. False: the stack has no end, or VISIT
 * ended the walk. */
bool capture_each_with_registers(const void *ucontext, uint64_t sp, register_frame_t *visit,
                                 void *context);

#endif
