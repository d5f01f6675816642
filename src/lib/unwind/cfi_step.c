/* SPDX-License-Identifier: MIT
 *
 * One step outward with all registers, by interpreting the row that covers the pc.
 *
 * A register is carried only while its value is known. The innermost frame may have only a stack
 * pointer and a pc (a thread that is captured passively). A rule that needs an unknown register
 * fails with STEP_UNKNOWN_REGISTER. Registers that a call may clobber are unknown after a call
 * frame. There is one exception: if the row at a return address computes the CFA from such a
 * register, the register stays known. The function itself will use that register to find its frame,
 * so the functions that it calls preserve the register. Hand-written assembly computes the CFA from
 * such a register around calls within a library.
 *
 * A frame is impossible if its CFA is not further out than the frame before it. That test and the
 * bounds of memory end every walk. Signal frames may switch stacks.
 */
#include <string.h>

#include "unwind/cfi_step.h"
#include "unwind/cfi.h"
#include "unwind/infer/infer.h"
#include "sonde/status.h"

/* Registers that a call preserves: x86_64 psABI figure 3.4; AAPCS64 section 6.1.1. */
#define X86_64_CALLEE_SAVED (1u << 3 | 1u << 6 | 0xfu << 12)
#define X86_64_GENERAL      0xffffu
/* x19 to x29. */
#define AARCH64_CALLEE_SAVED (0x7ffull << 19)

/* ---- signal frames without CFI -------------------------------------------------------------- */

/* True if the instructions at PC make the rt_sigreturn system call, which identifies the frame: mov
 * $15,%eax or %rax; syscall. On aarch64: mov x8,#139; svc #0. */
static bool at_sigreturn(machine_t machine, memory_t *memory, uint64_t pc) {
  uint8_t code[9];
  if (machine == MACHINE_AARCH64) {
    uint32_t words[2];
    return memory->read(memory, pc, words, 8) && words[0] == 0xd2801168 && words[1] == 0xd4000001;
  }
  if (!memory->read(memory, pc, code, 9)) return false;
  static const uint8_t with_rax[9] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
  static const uint8_t with_eax[7] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05};
  return memcmp(code, with_rax, 9) == 0 || memcmp(code, with_eax, 7) == 0;
}

/* x86_64: the ucontext is at the stack pointer (arch/x86/kernel/signal_64.c lays out rt_sigframe).
 * Its registers, in the order of struct sigcontext, start at offset 40. */
static bool restore_x86_64(memory_t *memory, regs_t *regs) {
  static const uint8_t order[16] = {8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7};
  uint64_t saved[17];
  if (!memory->read(memory, regs->r[X86_64_RSP] + 40, saved, sizeof saved)) return false;
  for (int i = 0; i < 16; i++)
    regs_set(regs, order[i], saved[i]);
  regs->pc = saved[16];
  return true;
}

/* aarch64: siginfo (128 bytes), then the ucontext, whose registers start at offset 176
 * (arch/arm64/kernel/signal.c; struct sigcontext after fault_address): x0-x30, sp, pc. */
static bool restore_aarch64(memory_t *memory, regs_t *regs) {
  uint64_t saved[33];
  if (!memory->read(memory, regs->r[AARCH64_SP] + 128 + 184, saved, sizeof saved)) return false;
  for (int i = 0; i <= AARCH64_SP; i++)
    regs_set(regs, i, saved[i]);
  regs->pc = saved[32];
  return true;
}

static unwind_step_t sigreturn_step(machine_t machine, memory_t *memory, regs_t *regs) {
  regs_t next = *regs;
  bool done =
      machine == MACHINE_X86_64 ? restore_x86_64(memory, &next) : restore_aarch64(memory, &next);
  if (!done) return STEP_FAULT;
  *regs = next;
  return STEP_SIGNAL;
}

/* ---- applying a row ------------------------------------------------------------------------- */

typedef struct step_frame {
  machine_t machine;
  memory_t *memory;
  const regs_t *regs;
  const cfi_row_t *row;
  uint64_t cfa;
} step_frame_t;

static unwind_step_t step_of_status(int status) {
  switch (status) {
  case SONDE_EFAULT: return STEP_FAULT;
  case SONDE_ENOTFOUND: return STEP_UNKNOWN_REGISTER;
  default: return STEP_BAD;
  }
}

static unwind_step_t find_cfa(step_frame_t *frame) {
  const cfi_row_t *row = frame->row;
  if (row->cfa_is_expression) {
    int status = cfi_evaluate(row->expressions + row->cfa_offset, row->cfa_length, frame->machine,
                              frame->regs, frame->memory, NULL, &frame->cfa, NULL);
    return status ? step_of_status(status) : STEP_CALLER;
  }
  if (!regs_may_have(frame->regs, row->cfa_register)) return STEP_UNKNOWN_REGISTER;
  uint64_t base = frame->regs->r[row->cfa_register];
  if (row->cfa_register == machine_fp(frame->machine)) base = machine_untag_fp(base);
  frame->cfa = base + (uint64_t)row->cfa_offset;
  return STEP_CALLER;
}

/* Recovers the caller's value of register N. STEP_END means that it is undefined. */
static unwind_step_t recover(const step_frame_t *frame, int n, uint64_t *value) {
  const cfi_rule_t *rule = &frame->row->rules[n];
  const uint8_t *expression = frame->row->expressions + rule->offset;
  uint64_t address;
  int status;
  switch ((cfi_how_t)rule->how) {
  case CFI_SAME:
    if (!regs_has(frame->regs, n)) return STEP_UNKNOWN_REGISTER;
    *value = frame->regs->r[n];
    return STEP_CALLER;
  case CFI_UNDEFINED: return STEP_END;
  case CFI_REGISTER:
    if (!regs_has(frame->regs, rule->offset)) return STEP_UNKNOWN_REGISTER;
    *value = frame->regs->r[rule->offset];
    return STEP_CALLER;
  case CFI_VAL_OFFSET: *value = frame->cfa + (uint64_t)(int64_t)rule->offset; return STEP_CALLER;
  case CFI_VAL_EXPRESSION:
    status = cfi_evaluate(expression, rule->length, frame->machine, frame->regs, frame->memory,
                          &frame->cfa, value, NULL);
    return status ? step_of_status(status) : STEP_CALLER;
  case CFI_EXPRESSION:
    status = cfi_evaluate(expression, rule->length, frame->machine, frame->regs, frame->memory,
                          &frame->cfa, &address, NULL);
    if (status) return step_of_status(status);
    break;
  case CFI_OFFSET: address = frame->cfa + (uint64_t)(int64_t)rule->offset; break;
  default: return STEP_BAD;
  }
  return frame->memory->read(frame->memory, address, value, 8) ? STEP_CALLER : STEP_FAULT;
}

/* Recovers the return address. On aarch64 a frame that has made a call cannot have it in the link
 * register. */
static unwind_step_t recover_pc(const step_frame_t *frame, bool exact, uint64_t *pc) {
  int column = frame->row->return_register;
  if (frame->machine == MACHINE_AARCH64 && !exact && !frame->row->signal_frame &&
      frame->row->rules[column].how == CFI_SAME)
    return STEP_END;
  return recover(frame, column, pc);
}

static void recover_all(const step_frame_t *frame, regs_t *next) {
  bool call_frame = !frame->row->signal_frame;
  uint64_t callee_saved =
      frame->machine == MACHINE_X86_64 ? X86_64_CALLEE_SAVED : AARCH64_CALLEE_SAVED;
  for (int n = 0; n < REGS_COUNT; n++) {
    uint64_t value;
    bool unsaved = frame->row->rules[n].how == CFI_SAME;
    if (call_frame && unsaved && !(callee_saved >> n & 1)) {
      if (regs_may_have(frame->regs, n)) regs_leave(next, n, frame->regs->r[n]);
      continue;
    }
    if ((unsaved && !regs_has(frame->regs, n)) || recover(frame, n, &value) != STEP_CALLER)
      continue;
    regs_set(next, n, value);
  }
  int sp = machine_sp(frame->machine);
  if (frame->row->rules[sp].how == CFI_SAME) regs_set(next, sp, frame->cfa);
}

/* True if the caller's stack pointer is possible. A caller is further out, except if the callee has
 * nothing on the stack, or if code leaves one stack for another and has a rule for the stack
 * pointer itself (longjmp). */
static bool is_possible_caller(const step_frame_t *frame, bool exact, uint64_t caller_sp) {
  const cfi_rule_t *rules = frame->row->rules;
  int sp = machine_sp(frame->machine);
  if (frame->row->signal_frame || !regs_has(frame->regs, sp)) return true;
  if (exact && rules[sp].how != CFI_SAME) return true;
  /* A trampoline keeps the return address elsewhere. */
  bool leaf = (frame->machine == MACHINE_AARCH64 && exact) ||
              rules[frame->row->return_register].how == CFI_EXPRESSION;
  return caller_sp > frame->regs->r[sp] || (leaf && caller_sp == frame->regs->r[sp]);
}

static unwind_step_t row_step(step_frame_t *frame, regs_t *regs, bool exact) {
  unwind_step_t step = find_cfa(frame);
  if (step != STEP_CALLER) return step;
  uint64_t pc;
  step = recover_pc(frame, exact, &pc);
  if (step != STEP_CALLER) return step;
  regs_t next = {.known = 0};
  recover_all(frame, &next);
  if (frame->machine == MACHINE_X86_64) regs_forget(&next, X86_64_RA);
  next.pc = machine_strip_signature(frame->machine, pc);
  if (!is_possible_caller(frame, exact, next.r[machine_sp(frame->machine)])) return STEP_BAD;
  if (next.pc == 0) return STEP_END;
  *regs = next;
  return frame->row->signal_frame ? STEP_SIGNAL : STEP_CALLER;
}

/* True if the stack is as the kernel passes it to a program (psABI, "Initial Stack and Register
 * State"): argc, that many pointers, and a null. It is at SP, or a word further out if SP was
 * aligned. */
static bool is_initial_stack(memory_t *memory, uint64_t sp) {
  enum { ARGUMENTS_MAX = 1 << 23 };
  for (uint64_t at = sp; at <= sp + 8; at += 8) {
    uint64_t count, end;
    if (memory->read(memory, at, &count, 8) && count <= ARGUMENTS_MAX &&
        memory->read(memory, at + 8 * (count + 1), &end, 8) && end == 0)
      return true;
  }
  return false;
}

/* True for the thread's first frame. No function calls the code at the entry point, and its
 * assembly often has no unwind rules: musl's _start, and ld.so's _start and _dl_start_user, from
 * which the constructors of libraries are called. Its stack holds what the kernel put there. A
 * Mach-O file is different: LC_MAIN names main, which dyld calls. */
static bool is_first_frame(machine_t machine, memory_t *memory, const image_t *image,
                           const regs_t *regs, bool exact) {
  enum { ENTRY_CODE_BYTES = 96 };
  uint64_t into = regs->pc - image->slide - image->entry;
  int sp = machine_sp(machine);
  return image->entry && !image->is_macho && into >= (exact ? 0 : 1) && into <= ENTRY_CODE_BYTES &&
         regs_has(regs, sp) && is_initial_stack(memory, regs->r[sp]);
}

unwind_step_t cfi_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs,
                       bool exact) {
  const image_t *image = images->find(images, exact ? regs->pc : regs->pc - 1);
  cfi_row_t row;
  int status = SONDE_ENOTFOUND;
  if (image) status = cfi_find_frame_row(image, machine, regs->pc - image->slide, exact, &row);
  if (status == SONDE_EFORMAT) return STEP_BAD;
  bool past_end = status == 0 && !exact && row.function_end <= regs->pc - image->slide;
  if ((status || past_end) && at_sigreturn(machine, memory, regs->pc))
    return sigreturn_step(machine, memory, regs);
  if (status && image && machine == MACHINE_AARCH64)
    status = infer_row(image, memory, regs->pc, exact, &row);
  if (status && image && is_first_frame(machine, memory, image, regs, exact)) return STEP_END;
  if (status) return STEP_NO_RULE;
  regs_t before = *regs;
  step_frame_t frame = {machine, memory, &before, &row, 0};
  return row_step(&frame, regs, exact);
}

/* ---- steps without a rule ------------------------------------------------------------------- */

/* In an image, a return address must follow a call that could have entered the code at FROM.
 * Outside every image, code may be made at run time and must at least be readable: interpreters
 * push return addresses that follow no call. */
static bool can_return_to(const insn_code_t *code, uint64_t pc, uint64_t from) {
  uint8_t byte;
  if (pc < 4096) return false;
  if (!code->images->find(code->images, pc - 1))
    return code->memory->read(code->memory, pc - 1, &byte, 1);
  return insn_may_return(code, pc, from);
}

unwind_step_t frame_pointer_step(machine_t machine, memory_t *memory, images_t *images,
                                 regs_t *regs) {
  int sp = machine_sp(machine), fp = machine_fp(machine);
  if (!regs_has(regs, fp)) return STEP_UNKNOWN_REGISTER;
  uint64_t at = machine_untag_fp(regs->r[fp]), pair[2];
  if (at % 8 || (regs_has(regs, sp) && at < regs->r[sp]) || at + 16 < at) return STEP_BAD;
  if (!memory->read(memory, at, pair, sizeof pair)) return STEP_FAULT;
  uint64_t pc = machine_strip_signature(machine, pair[1]);
  if (pc == 0) return STEP_END;
  insn_code_t code = {machine, memory, images};
  if (!can_return_to(&code, pc, regs->pc)) return STEP_BAD;
  regs_t next = {.pc = pc, .known = 0};
  regs_set(&next, fp, pair[0]);
  regs_set(&next, sp, at + 16);
  *regs = next;
  return STEP_CALLER;
}

/* Leaves start-up code for the code at the entry point, if that frame is near: a word that returns
 * there, right below the kernel's stack. */
static unwind_step_t step_to_entry(const insn_code_t *code, regs_t *regs) {
  enum { WORDS = 32 };
  int sp = machine_sp(code->machine);
  if (code->machine != MACHINE_X86_64 || !regs_has(regs, sp)) return STEP_NO_RULE;
  for (uint64_t at = regs->r[sp], end = at + WORDS * 8; at < end; at += 8) {
    regs_t next = {.known = 0};
    if (!code->memory->read(code->memory, at, &next.pc, 8)) break;
    const image_t *image = next.pc > 4096 ? code->images->find(code->images, next.pc - 1) : NULL;
    regs_set(&next, sp, at + 8);
    if (!image || !is_first_frame(code->machine, code->memory, image, &next, false)) continue;
    *regs = next;
    return STEP_CALLER;
  }
  return STEP_NO_RULE;
}

unwind_step_t inferred_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs,
                            bool exact, rule_t *rule) {
  insn_code_t code = {machine, memory, images};
  uint64_t sp = regs->r[machine_sp(machine)];
  unwind_step_t step = infer_return(machine, memory, images, regs, exact, rule);
  bool has_all = (regs->known & X86_64_GENERAL) == X86_64_GENERAL;
  if (step == STEP_CALLER || (step == STEP_UNKNOWN_REGISTER && exact && !has_all)) return step;
  /* The code computes the stack pointer from what no walk knows of a caller's registers. */
  if (step == STEP_UNKNOWN_REGISTER && !exact && regs_has(regs, machine_fp(machine)))
    *rule = rule_make(RULE_INFERRED, 0, 0, 0);
  step = frame_pointer_step(machine, memory, images, regs);
  if (step == STEP_CALLER || step == STEP_END || exact) return step;
  if (step_to_entry(&code, regs) != STEP_CALLER) return step;
  uint64_t words = (regs->r[machine_sp(machine)] - sp) / 8;
  *rule = rule_make(RULE_INFERRED, (uint32_t)words, 0, RA_BELOW_CFA);
  return STEP_CALLER;
}

unwind_step_t just_called_step(machine_t machine, memory_t *memory, images_t *images,
                               regs_t *regs) {
  int sp = machine_sp(machine);
  uint64_t pc;
  if (machine == MACHINE_AARCH64) {
    if (!regs_has(regs, AARCH64_LR)) return STEP_UNKNOWN_REGISTER;
    pc = regs->r[AARCH64_LR];
  } else {
    if (!regs_has(regs, sp)) return STEP_UNKNOWN_REGISTER;
    if (!memory->read(memory, regs->r[sp], &pc, 8)) return STEP_FAULT;
  }
  pc = machine_strip_signature(machine, pc);
  if (pc < 4096 || !insn_is_executable(images, pc - 1)) return STEP_BAD;
  regs->pc = pc;
  if (machine == MACHINE_AARCH64)
    regs_forget(regs, AARCH64_LR);
  else
    regs_set(regs, sp, regs->r[sp] + 8);
  return STEP_CALLER;
}
