/* SPDX-License-Identifier: MIT
 *
 * Swift's async frames.
 *
 * An async function keeps its state in a context on the heap, since it releases the thread's stack
 * whenever it waits. While it runs, its frame holds, from the frame pointer down: the saved frame
 * pointer with bits 63:60 set to 1, and the context. A context begins with its parent's address and
 * the address at which the parent resumes (Swift's ABI, "Async context"; LLVM's SwiftTailCC). The
 * resume address is the start of a function. So 1 is added: a reader that looks up a return address
 * one byte before it then finds that function. On arm64e all three are signed.
 *
 * No user address has any other value than 0 in bits 63:60. Such a frame pointer is invalid, and
 * the stack is reported as broken.
 */
#include "capture/walk.h"

typedef struct async_context {
  uint64_t parent, resume;
} async_context_t;

/* True if the frame just left, which saved its caller's frame pointer at P->fp_at, is an async one.
 */
static READS_STACK bool left_async_frame(rule_t rule, const position_t *p) {
  return rule_kind(rule) == RULE_FP && rule_save_bytes(rule) && *p->fp_at >> 60 == 1;
}

static void add(sonde_capture_t *capture, int *skip, uint64_t pc) {
  if (*skip > 0)
    --*skip;
  else
    capture->pcs[capture->count++] = pc;
}

/* Contexts are on the heap, and a damaged chain may be circular. CAPTURE->max bounds the loop. */
static void follow(uint64_t context_at, sonde_capture_t *capture, int *skip) {
  async_context_t context;
  uint64_t pc;
  capture->status = SONDE_STACK_COMPLETE;
  while (context_at) {
    if (capture->count == capture->max) {
      capture->status = SONDE_STACK_TRUNCATED;
      return;
    }
    if (os_read_memory(context_at, &context, sizeof context) != sizeof context) {
      capture->status = SONDE_STACK_BROKEN;
      capture->reason = SONDE_EFAULT;
      return;
    }
    pc = arch_strip(context.resume);
    if (!pc) return;
    add(capture, skip, pc + 1);
    context_at = arch_strip(context.parent);
  }
}

READS_STACK void walk_async(stack_window_t *w, position_t *p, uint64_t epoch,
                            sonde_capture_t *capture) {
  int skip = capture->skip;
  walk_step_t step = WALK_CALLER;
  capture->count = 0;
  while (step == WALK_CALLER && capture->count < capture->max) {
    add(capture, &skip, p->pc);
    rule_t rule = frame_table_find(p->pc, p->exact, epoch).rule;
    step = walk_by_rule(w, rule, p);
    if (step == WALK_SLOW)
      step = walk_slow_step_any_stack(w, p);
    else if (step == WALK_CALLER && left_async_frame(rule, p)) {
      p->flags |= SONDE_FLAG_ASYNC;
      if (capture->async == SONDE_ASYNC_FOLLOW) {
        capture->flags |= p->flags;
        follow(arch_strip(*(p->fp_at - 1)), capture, &skip);
        return;
      }
    }
  }
  capture->status = walk_status(step, &capture->reason);
  capture->flags |= p->flags;
}
