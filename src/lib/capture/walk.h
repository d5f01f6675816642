/* SPDX-License-Identifier: MIT
 *
 * The fast walk: from frame to frame by rules, over stack memory that is known to be readable.
 *
 * A window is the stretch of stack that may be read without asking: the thread's own stack, whose
 * pages were verified once, or a copy of another thread's. Addresses are those of the stack; DELTA
 * leads to where the bytes are. The walk asks the window to reach further when a frame lies beyond.
 *
 * The cost of a step: one look-up in the frame table (a cache line), one load of the return address
 * and, where a rule is relative to it, one of the frame pointer. The saved frame pointer is not
 * loaded when a frame restores it: the walk remembers where it is, for most are never needed.
 */
#ifndef SONDE_CAPTURE_WALK_H
#define SONDE_CAPTURE_WALK_H

#include "arch/arch.h"
#include "os/os.h"
#include "sonde/stack.h"
#include "capture/frame_table.h"
#include "capture/stack_window.h"
#include "unwind/cfi_step.h"

/* Where a walk stands: in a frame, about to be left. */
typedef struct position {
  uint64_t pc;
  bool exact;            /* pc is the pc itself, not a return address */
  uint64_t sp;           /* the stack pointer in this frame */
  const uint64_t *fp_at; /* where the value of the frame register is; NULL when it is not known */
  uint64_t lr;           /* aarch64: the link register, while the frame is exact; else 0 */
  uint64_t slot;         /* where the pc was read from; 0 when from a register */
  uint64_t raw;          /* what was read there: the pc, on aarch64 perhaps signed */
  uint64_t fp_value;     /* room for a frame register that is not in the window */
  unsigned flags;        /* SONDE_FLAG_… met so far */
  uint64_t slow_sp;      /* of the last slow step */
  unsigned slow_steps;   /* slow steps no further out: bounds a walk that is led in circles */
} position_t;

/* Copies what a step by rule changes, word by word, so that no load is wider than the store before
 * it. The pointer leads to where it led. */
static ALWAYS_INLINE void position_move(position_t *to, const position_t *from) {
  to->pc = from->pc;
  to->exact = from->exact;
  to->sp = from->sp;
  to->fp_at = from->fp_at;
  to->lr = from->lr;
  to->slot = from->slot;
  to->raw = from->raw;
}

/* The same for a walk that begins. */
static ALWAYS_INLINE void position_copy(position_t *to, const position_t *from) {
  position_move(to, from);
  to->fp_value = from->fp_value;
  to->flags = from->flags;
  to->slow_sp = from->slow_sp;
  to->slow_steps = from->slow_steps;
}

typedef enum walk_step {
  WALK_CALLER = 0,     /* now in the caller */
  WALK_END,            /* the frame was the first of its thread */
  WALK_SLOW,           /* the rule is not one for the fast walk: walk_slow_step */
  WALK_FAULT,          /* memory that the frame needs cannot be read */
  WALK_BAD,            /* the frame is impossible */
  WALK_NEEDS_FP,       /* the rule needs the frame register, which is not known */
  WALK_NEEDS_REGISTER, /* the row needs yet another register */
} walk_step_t;

/* A frame pointer without the mark that says it was saved by an async frame of Swift: bits 63:60
 * are 1 there, and 0 otherwise. */
static ALWAYS_INLINE uint64_t walk_untag_fp(uint64_t fp) {
  return UNLIKELY(fp >> 60 == 1) ? fp & ~(UINT64_C(15) << 60) : fp;
}

/* The CFA of the frame POSITION is in. A rule relative to the stack pointer leads outward by itself
 * (see rule_of_row); the content of the frame register has to be checked. */
static ALWAYS_INLINE READS_STACK walk_step_t walk_find_cfa(const stack_window_t *w, rule_t rule,
                                                           const position_t *p, uint64_t *cfa) {
  rule_kind_t kind = rule_kind(rule);
  if (LIKELY(kind == RULE_SP)) {
    *cfa = p->sp + rule_cfa_bytes(rule);
    return WALK_CALLER;
  }
  if (UNLIKELY(kind != RULE_FP)) return kind == RULE_END ? WALK_END : WALK_SLOW;
  if (UNLIKELY(!p->fp_at)) return WALK_NEEDS_FP;
  *cfa = walk_untag_fp(*p->fp_at) + rule_cfa_bytes(rule);
  bool outward = *cfa > p->sp && *cfa - rule_save_bytes(rule) >= w->lo && !(*cfa & 7);
  return LIKELY(outward) ? WALK_CALLER : WALK_BAD;
}

/* Leaves the frame POSITION is in by its RULE. */
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
    if (!p->lr) return WALK_NEEDS_REGISTER; /* of a thread that is read in place */
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

/* Leaves a frame that has no fast rule: interprets its row, restores a signal frame's registers, or
 * follows the frame pointer where there is no row. Never returns WALK_SLOW. */
walk_step_t walk_slow_step(stack_window_t *w, position_t *p);

/* Likewise, and goes over to another stack when the step leads there. */
walk_step_t walk_slow_step_any_stack(stack_window_t *w, position_t *p);

/* Walks outward from POSITION, writing program counters to CAPTURE->pcs after leaving out
 * CAPTURE->skip, and sets count, mark, reason and flags. EPOCH is walk_epoch(). */
void walk_to_pcs(stack_window_t *w, position_t *p, uint64_t epoch, sonde_capture_t *capture);

/* As walk_to_pcs, looking at every frame whether it is an async one, and going over to the async
 * calls when CAPTURE asks for it. */
void walk_async(stack_window_t *w, position_t *p, uint64_t epoch, sonde_capture_t *capture);

/* The one of the two that CAPTURE asks for. */
static inline void walk_capture(stack_window_t *w, position_t *p, uint64_t epoch,
                                sonde_capture_t *capture) {
  (capture->async ? walk_async : walk_to_pcs)(w, p, epoch, capture);
}

/* The mark and the reason that a walk which stopped with STEP deserves. */
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
