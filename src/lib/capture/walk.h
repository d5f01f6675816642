/* SPDX-License-Identifier: MIT
 *
 * The fast walk: unwinds frame by frame with rules, over a window of readable stack memory
 * (capture/stack_window.h).
 *
 * A step costs one lookup in the frame table (a cache line), one load of the return address and,
 * for a rule over the frame pointer, one load of that. The walk does not load a saved frame pointer
 * that a frame restores. It only remembers the address, since most saved frame pointers are never
 * needed.
 *
 * Threads: a walk uses only its arguments and the shared frame table. It is async-signal-safe.
 */
#ifndef SONDE_CAPTURE_WALK_H
#define SONDE_CAPTURE_WALK_H

#include "arch/arch.h"
#include "os/os.h"
#include "sonde/stack.h"
#include "capture/frame_table.h"
#include "capture/stack_window.h"
#include "unwind/cfi_step.h"

/* The position of a walk: a frame that it is about to leave. */
typedef struct position {
  uint64_t pc;
  /* The pc is exact, not a return address. */
  bool exact;
  /* The stack pointer in this frame. */
  uint64_t sp;
  /* Address of the frame register's value; NULL if unknown. */
  const uint64_t *fp_at;
  /* aarch64: the link register while the frame is exact; otherwise 0. */
  uint64_t lr;
  /* Address that the pc was read from; 0 if from a register. */
  uint64_t slot;
  /* Content of that address: the pc, which aarch64 may have signed. */
  uint64_t raw;
  /* Storage for a frame register's value that is not in the window. */
  uint64_t fp_value;
  /* SONDE_FLAG_… met so far. */
  unsigned flags;
  /* Stack pointer at the last slow step. */
  uint64_t slow_sp;
  /* Slow steps that did not lead outward; bounds a walk that goes in circles. */
  unsigned slow_steps;
} position_t;

/* Copies the fields that a step by rule changes, word by word, so that no load is wider than the
 * store before it. `fp_at` keeps its target. */
static ALWAYS_INLINE void position_move(position_t *to, const position_t *from) {
  to->pc = from->pc;
  to->exact = from->exact;
  to->sp = from->sp;
  to->fp_at = from->fp_at;
  to->lr = from->lr;
  to->slot = from->slot;
  to->raw = from->raw;
}

/* As position_move, for a walk that begins. */
static ALWAYS_INLINE void position_copy(position_t *to, const position_t *from) {
  position_move(to, from);
  to->fp_value = from->fp_value;
  to->flags = from->flags;
  to->slow_sp = from->slow_sp;
  to->slow_steps = from->slow_steps;
}

typedef enum walk_step {
  /* The position is now in the caller. */
  WALK_CALLER = 0,
  /* The frame was the thread's first. */
  WALK_END,
  /* The fast walk cannot apply the rule: call walk_slow_step. */
  WALK_SLOW,
  /* Memory that the frame needs cannot be read. */
  WALK_FAULT,
  /* The frame is impossible. */
  WALK_BAD,
  /* The rule needs the frame register, which is unknown. */
  WALK_NEEDS_FP,
  /* The row needs another register, which is unknown. */
  WALK_NEEDS_REGISTER,
} walk_step_t;

/* Finds the CFA of the frame at P. A rule over the stack pointer always leads outward (see
 * rule_of_row); the content of the frame register must be checked. */
static ALWAYS_INLINE READS_STACK walk_step_t walk_find_cfa(const stack_window_t *w, rule_t rule,
                                                           const position_t *p, uint64_t *cfa) {
  rule_kind_t kind = rule_kind(rule);
  if (LIKELY(kind == RULE_SP)) {
    *cfa = p->sp + rule_cfa_bytes(rule);
    return WALK_CALLER;
  }
  if (UNLIKELY(kind != RULE_FP)) return kind == RULE_END ? WALK_END : WALK_SLOW;
  if (UNLIKELY(!p->fp_at)) return WALK_NEEDS_FP;
  *cfa = machine_untag_fp(*p->fp_at) + rule_cfa_bytes(rule);
  bool outward = *cfa > p->sp && *cfa - rule_save_bytes(rule) >= w->lo && !(*cfa & 7);
  return LIKELY(outward) ? WALK_CALLER : WALK_BAD;
}

/* Leaves the frame at P by its RULE. */
static ALWAYS_INLINE READS_STACK walk_step_t walk_by_rule(stack_window_t *w, rule_t rule,
                                                          position_t *p) {
  uint64_t cfa = 0, save = rule_save_bytes(rule);
  walk_step_t step = walk_find_cfa(w, rule, p, &cfa);
  if (UNLIKELY(step != WALK_CALLER)) return step;
  uint64_t slot = cfa - 8;
#if defined(__aarch64__)
  if (rule_ra(rule) == RA_ABOVE_SAVED) slot = cfa - save + 8;
  if (rule_ra(rule) == RA_IN_LR) {
    if (!p->exact) return WALK_BAD;
    if (!p->lr) return WALK_NEEDS_REGISTER; /* A thread that is captured passively. */
    p->raw = p->lr;
    p->slot = 0;
  } else
#endif
  {
    if (UNLIKELY(cfa > w->hi) && !w->reach(w, cfa - 8)) return WALK_FAULT;
    p->raw = *stack_window_at(w, slot);
    p->slot = slot;
  }
  p->fp_at = save ? stack_window_at(w, cfa - save) : p->fp_at;
  p->pc = arch_strip(p->raw);
  p->sp = cfa;
  p->exact = false;
#if defined(__aarch64__)
  p->lr = 0;
#endif
  return LIKELY(p->pc) ? WALK_CALLER : WALK_END;
}

/* Leaves a frame that has no fast rule: interprets its row, restores a signal frame's registers,
 * leaves a call of a trampoline, or follows the frame pointer if there is no row. Never returns
 * WALK_SLOW. P->slot is 0 afterwards, except after a call of a trampoline: then it is the address
 * of the return address in that call, outside the stack. */
walk_step_t walk_slow_step(stack_window_t *w, position_t *p);

/* Notes the function that changes a frame which a signal interrupted in moved instructions to the
 * frame of the function that they are from (hook/entry.h). It may be called anywhere. */
typedef bool walk_translate_t(arch_frame_t *frame);
void walk_know_moved(walk_translate_t *translate);

/* Applies that function to FRAME. */
void walk_translate(arch_frame_t *frame);

/* Notes the address of the memory of all calls of trampolines, which is never unmapped. */
void walk_know_calls(uint64_t address);

/* As walk_slow_step, and moves the window if the step leads to another stack. */
walk_step_t walk_slow_step_any_stack(stack_window_t *w, position_t *p);

/* Walks outward from P and writes program counters to CAPTURE->pcs, without the first
 * CAPTURE->skip. Sets count, status, reason and flags. EPOCH is walk_epoch(). */
void walk_to_pcs(stack_window_t *w, position_t *p, uint64_t epoch, sonde_capture_t *capture);

/* As walk_to_pcs, but checks each frame for Swift's async tag, and follows the async calls if
 * CAPTURE requests it. */
void walk_async(stack_window_t *w, position_t *p, uint64_t epoch, sonde_capture_t *capture);

/* Calls the one of the two that CAPTURE requests. */
static inline void walk_capture(stack_window_t *w, position_t *p, uint64_t epoch,
                                sonde_capture_t *capture) {
  (capture->async ? walk_async : walk_to_pcs)(w, p, epoch, capture);
}

/* Returns the status, and in *REASON the reason, of a walk that ended with STEP. */
sonde_stack_status_t walk_status(walk_step_t step, int *reason);

/* The loader's epoch for a capture that starts now. */
#define EPOCH_UNKNOWN (~(uint64_t)0)
static ALWAYS_INLINE uint64_t walk_epoch(void) {
  uint64_t epoch = os_loader_epoch();
  return LIKELY(epoch) ? epoch : EPOCH_UNKNOWN;
}

/* The images of this process, for cfi_step. Async-signal-safe. */
images_t *walk_images(void);

#endif
