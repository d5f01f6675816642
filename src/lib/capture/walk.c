/* SPDX-License-Identifier: MIT
 *
 * The slow steps of the fast walk, and the uncached walk.
 */
#include "capture/walk.h"
#include "arch/trampoline.h"
#include "image/list.h"
#include "os/os.h"
#include "unwind/infer/insn.h"

#define SLOW_STEPS_MAX 1024

/* ---- memory and images for cfi_step --------------------------------------------------------- */

typedef struct window_memory {
  memory_t memory;
  stack_window_t *window;
} window_memory_t;

static READS_STACK bool read_window(memory_t *self, uint64_t address, void *out, size_t size) {
  const stack_window_t *w = ((window_memory_t *)self)->window;
  if (address >= w->lo && address < w->hi && size <= w->hi - address) {
    const volatile uint8_t *from = (const volatile uint8_t *)stack_window_at(w, address);
    for (size_t i = 0; i < size; i++)
      ((uint8_t *)out)[i] = from[i];
    return true;
  }
  return os_read_memory(address, out, size) == (ssize_t)size;
}

static const image_t *find_image(images_t *self, uint64_t pc) {
  (void)self;
  uint16_t id = image_id_of_pc(pc);
  return id ? image_by_id(id) : NULL;
}

images_t *walk_images(void) {
  static images_t images = {find_image};
  return &images;
}

/* ---- slow steps ----------------------------------------------------------------------------- */

/* A signal frame can lead to any stack pointer, and so into a circle. Every circle has a slow step
 * that is no further out than the one before it. A recursion through a thousand trampolines has
 * none. */
static bool is_endless(position_t *p) {
  bool further_out = p->sp > p->slow_sp;
  p->slow_sp = p->sp;
  return !further_out && p->slow_steps++ == SLOW_STEPS_MAX;
}

static READS_STACK regs_t regs_of(const position_t *p) {
  regs_t regs = {.pc = p->pc};
  regs_set(&regs, machine_sp(MACHINE_HERE), p->sp);
  if (p->fp_at) regs_set(&regs, machine_fp(MACHINE_HERE), *p->fp_at);
  if (MACHINE_HERE == MACHINE_AARCH64 && p->exact && p->lr) regs_set(&regs, AARCH64_LR, p->lr);
  return regs;
}

static void set_position(position_t *p, const regs_t *regs, bool exact) {
  int fp = machine_fp(MACHINE_HERE);
  p->pc = regs->pc;
  p->raw = regs->pc;
  p->exact = exact;
  p->slot = 0;
  p->sp = regs->r[machine_sp(MACHINE_HERE)];
  p->fp_value = regs->r[fp];
  p->fp_at = regs_has(regs, fp) ? &p->fp_value : NULL;
  p->lr = exact && MACHINE_HERE == MACHINE_AARCH64 && regs_has(regs, AARCH64_LR)
              ? regs->r[AARCH64_LR]
              : 0;
}

static walk_step_t walk_of_step(unwind_step_t step) {
  switch (step) {
  case STEP_CALLER:
  case STEP_SIGNAL: return WALK_CALLER;
  case STEP_END: return WALK_END;
  case STEP_FAULT: return WALK_FAULT;
  case STEP_UNKNOWN_REGISTER: return WALK_NEEDS_REGISTER;
  default: return WALK_BAD;
  }
}

/* Steps from a pc that no row covers, as the RULE says that was inferred for it. */
static unwind_step_t step_by_inferred_rule(memory_t *memory, rule_t rule, regs_t *regs) {
  int sp = machine_sp(MACHINE_HERE), fp = machine_fp(MACHINE_HERE);
  uint64_t cfa = regs->r[sp] + rule_cfa_bytes(rule), save = rule_save_bytes(rule), saved;
  if (cfa == regs->r[sp]) return frame_pointer_step(MACHINE_HERE, memory, walk_images(), regs);
  if (!memory->read(memory, cfa - 8, &regs->pc, 8)) return STEP_FAULT;
  if (save && !memory->read(memory, cfa - save, &saved, 8)) return STEP_FAULT;
  if (save) regs_set(regs, fp, saved);
  regs_set(regs, sp, cfa);
  return insn_is_executable(walk_images(), regs->pc - 1) ? STEP_CALLER : STEP_BAD;
}

/* Steps from a pc that no row covers. A pc that is in no image and was not called from one may be
 * code made at run time, whose frame pointer leads on, or no code at all, after a call through a
 * null pointer. */
static unwind_step_t step_without_row(memory_t *memory, const position_t *p, regs_t *regs) {
  rule_t rule;
  if (p->exact && !os_readable(p->pc) &&
      just_called_step(MACHINE_HERE, memory, walk_images(), regs) == STEP_CALLER)
    return STEP_CALLER;
  unwind_step_t step = inferred_step(MACHINE_HERE, memory, walk_images(), regs, p->exact, &rule);
  if (rule_kind(rule) == RULE_INFERRED) frame_table_set_rule(p->pc, p->exact, walk_epoch(), rule);
  return step;
}

/* ---- trampolines ---------------------------------------------------------------------------- */

static uint64_t calls_start;

static walk_translate_t *translate_moved;

void walk_know_moved(walk_translate_t *translate) { store_release(&translate_moved, translate); }

void walk_translate(arch_frame_t *frame) {
  walk_translate_t *translate = load_acquire(&translate_moved);
  if (translate) (void)translate(frame);
}

void walk_know_calls(uint64_t address) { store_release(&calls_start, address); }

/* The call of the trampoline whose frame P is in; NULL if P is in no such frame, or if that is not
 * certain. */
static READS_STACK const uint64_t *call_at(const position_t *p) {
  uint64_t start = load_relaxed(&calls_start);
  if (p->exact || !p->fp_at || !start || p->pc != trampoline_address(TRAMPOLINE_RETURN))
    return NULL;
  uint64_t at = *p->fp_at;
  if (at % 8 || at - start > CALLS_BYTES - CALL_BYTES) return NULL;
  const uint64_t *call = (const uint64_t *)(uintptr_t)at;
  return call[CALL_SP / 8] == p->sp ? call : NULL;
}

/* Does what the trampoline's CFI says, without interpreting it. */
static walk_step_t leave_call(const uint64_t *call, position_t *p) {
  p->slot = (uint64_t)(uintptr_t)call + CALL_RETURN_ADDRESS;
  p->raw = call[CALL_RETURN_ADDRESS / 8];
  p->pc = arch_strip(p->raw);
  p->fp_at = &call[CALL_CALLER_FP / 8];
  p->exact = false;
  p->lr = 0;
  return p->pc ? WALK_CALLER : WALK_END;
}

/* Verifies the page with the end of a frame that was left: else each capture would check each read
 * of a frame that crosses the end of the window. */
static void hold_frame(stack_window_t *w, uint64_t end) {
  if (UNLIKELY(end > w->hi) && end - w->hi <= STACK_WINDOW_PAGE) (void)w->reach(w, end - 8);
}

walk_step_t walk_slow_step(stack_window_t *w, position_t *p) {
  window_memory_t memory = {{read_window}, w};
  if (is_endless(p)) return WALK_BAD;
  const uint64_t *call = call_at(p);
  if (call) return leave_call(call, p);
  regs_t regs = regs_of(p);
  rule_t rule = frame_table_find(p->pc, p->exact, walk_epoch()).rule;
  bool is_inferred = rule_kind(rule) == RULE_INFERRED;
  unwind_step_t step = is_inferred
                           ? step_by_inferred_rule(&memory.memory, rule, &regs)
                           : cfi_step(MACHINE_HERE, &memory.memory, walk_images(), &regs, p->exact);
  if (step == STEP_NO_RULE || is_inferred) {
    if (!is_inferred) step = step_without_row(&memory.memory, p, &regs);
    p->flags |= SONDE_FLAG_HEURISTIC;
    /* Two zero words that a heuristic step reached do not prove that the thread began here. */
    if ((step == STEP_UNKNOWN_REGISTER && !p->exact) || step == STEP_END) step = STEP_BAD;
  }
  /* Only the code at the entry point ends a stack without a row, and is always its end. */
  if (MACHINE_HERE != MACHINE_AARCH64 && step == STEP_END && rule_kind(rule) == RULE_NONE)
    frame_table_set_rule(p->pc, p->exact, walk_epoch(), rule_make(RULE_END, 0, 0, 0));
  if (step == STEP_SIGNAL) p->flags |= SONDE_FLAG_SIGNAL_FRAME;
  if (step == STEP_CALLER) hold_frame(w, regs.r[machine_sp(MACHINE_HERE)]);
  if (step == STEP_CALLER || step == STEP_SIGNAL) set_position(p, &regs, step == STEP_SIGNAL);
  return walk_of_step(step);
}

/* ---- the uncached walk ---------------------------------------------------------------------- */

sonde_stack_status_t walk_status(walk_step_t step, int *reason) {
  *reason = 0;
  switch (step) {
  case WALK_END: return SONDE_STACK_COMPLETE;
  case WALK_CALLER: return SONDE_STACK_TRUNCATED;
  case WALK_FAULT: *reason = SONDE_EFAULT; break;
  case WALK_NEEDS_FP:
  case WALK_NEEDS_REGISTER: *reason = SONDE_ENOTFOUND; break;
  default: *reason = SONDE_EFORMAT;
  }
  return SONDE_STACK_BROKEN;
}

/* Walks by rules alone, from hint to hint, until COUNT reaches MAX or a frame needs more. Returns
 * the new count. P is then at a frame that is not written yet. */
static READS_STACK int follow_rules(stack_window_t *w, position_t *p, uint64_t epoch,
                                    uintptr_t *pcs, int count, int max, walk_step_t *step) {
  /* In registers. */
  position_t here;
  position_copy(&here, p);
  frame_slot_t *inner = NULL;
  uint32_t hint = 0;
  *step = WALK_CALLER;
  while (LIKELY(count < max)) {
    inner = frame_table_find_hinted(inner, hint, here.pc, epoch, FRAME_TABLE_NO_SEED);
    if (UNLIKELY(!inner)) break;
    uint64_t both = frame_table_rule_and_hint(inner);
    hint = (uint32_t)(both >> 32);
    pcs[count++] = here.pc;
    *step = walk_by_rule(w, (rule_t)both, &here);
    if (UNLIKELY(*step != WALK_CALLER)) break;
  }
  *p = here;
  return count;
}

walk_step_t walk_slow_step_any_stack(stack_window_t *w, position_t *p) {
  walk_step_t step = walk_slow_step(w, p);
  if (step != WALK_CALLER || stack_window_holds(w, p->sp)) return step;
  return w->move && w->move(w, p->sp) ? WALK_CALLER : WALK_FAULT;
}

READS_STACK void walk_to_pcs(stack_window_t *w, position_t *p, uint64_t epoch,
                             sonde_capture_t *capture) {
  uintptr_t *pcs = capture->pcs;
  int count = 0, max = capture->max, skip = capture->skip;
  walk_step_t step = WALK_CALLER;
  for (;;) {
    if (LIKELY(!p->exact && !skip)) {
      count = follow_rules(w, p, epoch, pcs, count, max, &step);
      if (step == WALK_SLOW) step = walk_slow_step_any_stack(w, p);
      if (step != WALK_CALLER) break;
    }
    if (skip > 0)
      skip--;
    else if (count == max)
      break;
    else
      pcs[count++] = p->pc;
    step = walk_by_rule(w, frame_table_find(p->pc, p->exact, epoch).rule, p);
    if (step == WALK_SLOW) step = walk_slow_step_any_stack(w, p);
    if (step != WALK_CALLER) break;
  }
  capture->count = count;
  capture->status = walk_status(step, &capture->reason);
  capture->flags |= p->flags;
}
