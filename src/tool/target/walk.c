/* SPDX-License-Identifier: MIT
 *
 * Walks one stack. A frame is left by its unwind rule. Code without rules (generated at run time,
 * or built without them) is left as its instructions show, by its frame pointer or by a scan for
 * return addresses, which marks the next frame as guessed. An innermost pc that is not in code
 * is left by the return address that the call pushed. The frame of a trampoline is left by the list
 * of calls in progress, if the frame register is unknown. A walk that ends early has a reason.
 */
#include "target/walk.h"

#include <stdlib.h>
#include <string.h>

#include "hook/call_stack.h"
#include "target/packed/unpack.h"
#include "unwind/infer/infer.h"

static bool push(walk_t *walk, uint64_t pc, uint64_t sp, bool exact, bool guessed) {
  if (walk->count == walk->capacity) {
    uint32_t capacity = walk->capacity ? walk->capacity * 2 : 64;
    frame_t *frames = realloc(walk->frames, capacity * sizeof *frames);
    if (!frames) return false;
    walk->frames = frames;
    walk->capacity = capacity;
  }
  walk->frames[walk->count++] = (frame_t){.pc = pc, .sp = sp, .exact = exact, .guessed = guessed};
  return true;
}

/* A step by rule, which may have to be decompressed first. */
static unwind_step_t step_by_rule(target_t *target, regs_t *regs, bool exact) {
  unwind_step_t step = cfi_step(target->machine, target->memory, &target->images, regs, exact);
  if (step != STEP_NO_RULE) return step;
  module_t *module = target_module(target, regs->pc - !exact);
  if (!module || !module_unpack(module)) return step;
  return cfi_step(target->machine, target->memory, &target->images, regs, exact);
}

static const char *reason_of(unwind_step_t step) {
  switch (step) {
  case STEP_NO_RULE: return "no unwind information covers this code";
  case STEP_FAULT: return "its stack is unreadable";
  case STEP_UNKNOWN_REGISTER: return "the next step needs an unknown register";
  default: return "the next frame is invalid";
  }
}

static bool is_code(target_t *target, uint64_t pc) {
  const mapping_t *m = maps_find(&target->maps, pc);
  return m && (m->access & MAP_EXEC);
}

/* A step without a rule. Where neither the code nor the frame pointer leads on, a libc that was
 * linked into a program is left by a scan. */
static unwind_step_t step_without_rule(target_t *target, regs_t *regs, bool exact, bool lost) {
  if (exact && !is_code(target, regs->pc)) {
    unwind_step_t step = just_called_step(target->machine, target->memory, &target->images, regs);
    if (step == STEP_CALLER) return step;
  }
  rule_t rule;
  unwind_step_t step =
      inferred_step(target->machine, target->memory, &target->images, regs, exact, &rule);
  if (step == STEP_CALLER || step == STEP_END) return step;
  if (step == STEP_UNKNOWN_REGISTER && !lost) return step;
  step = infer_by_scan(target->machine, target->memory, &target->images, regs);
  return step == STEP_CALLER ? step : STEP_NO_RULE;
}

/* Infers the frame register when the walk needs it. */
static bool prove(target_t *target, regs_t *regs, bool exact) {
  const mapping_t *stack = maps_find(&target->maps, regs->r[machine_sp(target->machine)]);
  return stack && infer_frame_pointer(target->machine, target->memory, &target->images, regs, exact,
                                      stack->end) == FP_INFERENCE_FOUND;
}

/* ---- trampolines -------------------------------------------------------------------------- */

/* Limits of lists that the program may have damaged: threads, and calls of coroutines, whose stacks
 * are elsewhere, or that ended on another thread. */
#define STATES_MAX  100000
#define FOREIGN_MAX 1000

/* The newest call of STATE that leaves SP behind; 0: there is none. The newer, the deeper: each
 * newer call on this stack has one of the FRAMES that the walk has left. */
static uint64_t call_of_state(target_t *target, const call_stack_t *state, uint64_t sp,
                              uint32_t frames) {
  call_t call;
  uint64_t at = (uint64_t)(uintptr_t)state->live;
  for (uint32_t own = 0, foreign = 0; own <= frames && foreign < FOREIGN_MAX;) {
    if (!target->memory->read(target->memory, at, &call, sizeof call)) return 0;
    if (call.sp == sp) return at;
    bool is_own = call.sp - state->low < state->high - state->low;
    if (is_own && call.sp > sp) return 0;
    own += is_own;
    foreign += !is_own;
    at = (uint64_t)(uintptr_t)call.outer;
  }
  return 0;
}

/* In the frame of a trampoline, the frame register points to the call (hook/trampoline.h). A thread
 * in a system call does not show it, and the functions that were called may not have saved it. */
static void find_call(target_t *target, regs_t *regs, uint32_t frames) {
  uint64_t at = 0, sp = regs->r[machine_sp(target->machine)];
  call_stack_t state;
  if (target->machine != MACHINE_HERE || !target->trampoline_pc ||
      regs->pc != target->trampoline_pc || regs_has(regs, machine_fp(target->machine)) ||
      !target->memory->read(target->memory, target->call_states, &at, sizeof at))
    return;
  for (int i = 0; i < STATES_MAX && at; i++) {
    if (!target->memory->read(target->memory, at, &state, sizeof state)) return;
    uint64_t call =
        sp - state.low < state.high - state.low ? call_of_state(target, &state, sp, frames) : 0;
    if (call) {
      regs_set(regs, machine_fp(target->machine), call);
      return;
    }
    at = (uint64_t)(uintptr_t)state.next;
  }
}

/* ---- Swift's async functions (capture/async.c explains their frames) ----------------------- */

/* The context of the frame that was left from BEFORE to AFTER; 0: the frame is not an async one. */
static uint64_t async_context(target_t *target, const regs_t *before, const regs_t *after) {
  int fp = machine_fp(target->machine);
  uint64_t context;
  if (!regs_has(before, fp) || !regs_has(after, fp) || after->r[fp] >> 60 != 1) return 0;
  return target->memory->read(target->memory, machine_untag_fp(before->r[fp]) - 8, &context, 8)
             ? context
             : 0;
}

/* Adds the callers of an async function. A damaged chain may be circular: DEPTH bounds it. */
static void push_async(target_t *target, uint64_t context, uint32_t depth, walk_t *walk) {
  uint64_t pair[2]; /* the parent and where it resumes, the start of a function */
  while (context && walk->count < depth) {
    if (!target->memory->read(target->memory, context, pair, sizeof pair)) {
      walk->reason = "a context of its async calls is unreadable";
      return;
    }
    uint64_t resume = machine_strip_signature(target->machine, pair[1]);
    if (!resume) break;
    if (!push(walk, resume + 1, 0, false, false)) {
      walk->reason = "out of memory";
      return;
    }
    walk->frames[walk->count - 1].async = true;
    context = machine_strip_signature(target->machine, pair[0]);
  }
  walk->ending = walk->count < depth ? ENDING_COMPLETE : ENDING_TRUNCATED;
}

void walk_stack(target_t *target, const regs_t *start, uint32_t depth, walk_t *walk) {
  regs_t regs = *start;
  bool exact = true, guessed = false, scanned = false;
  walk->count = 0;
  walk->reason = walk->frames_problem = NULL;
  walk->proven = walk->wants_registers = false;
  walk->ending = ENDING_BROKEN;
  while (walk->count < depth) {
    if (!push(walk, regs.pc, regs.r[machine_sp(target->machine)], exact, guessed)) {
      walk->reason = "out of memory";
      return;
    }
    guessed = false;
    if (!exact) find_call(target, &regs, walk->count);
    regs_t before = regs;
    unwind_step_t step = step_by_rule(target, &regs, exact);
    if (step == STEP_UNKNOWN_REGISTER && prove(target, &regs, exact)) {
      walk->proven = true;
      before = regs;
      step = step_by_rule(target, &regs, exact);
    }
    if (step == STEP_NO_RULE) {
      step = step_without_rule(target, &regs, exact, scanned);
      guessed = step == STEP_CALLER;
      scanned |= guessed && !regs_has(&regs, machine_fp(target->machine));
    }
    if (step == STEP_END) {
      if (scanned)
        walk->reason = "some frames were found by scan: they are likely, not certain";
      else
        walk->ending = ENDING_COMPLETE;
      return;
    }
    if (step != STEP_CALLER && step != STEP_SIGNAL) {
      walk->reason = reason_of(step);
      /* Registers do not help a scanned stack: the scan loses them again. */
      walk->wants_registers = step == STEP_UNKNOWN_REGISTER && !scanned;
      return;
    }
    exact = step == STEP_SIGNAL;
    uint64_t context = target->follows_async ? async_context(target, &before, &regs) : 0;
    if (context) {
      push_async(target, context, depth, walk);
      return;
    }
  }
  walk->ending = ENDING_TRUNCATED;
}

void walk_give(walk_t *walk, thread_t *thread) {
  free(thread->frames);
  thread->frames = NULL;
  thread->frame_count = walk->count;
  thread->ending = walk->ending;
  thread->reason = walk->reason;
  if (walk->count > 0) {
    thread->frames = malloc(walk->count * sizeof *thread->frames);
    if (thread->frames) {
      memcpy(thread->frames, walk->frames, walk->count * sizeof *thread->frames);
    } else {
      thread->frame_count = 0;
      thread->ending = ENDING_NONE;
      thread->reason = "out of memory";
    }
  }
  thread->proven = walk->proven;
  thread->frames_problem = walk->frames_problem;
}
