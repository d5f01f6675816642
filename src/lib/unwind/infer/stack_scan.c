/* SPDX-License-Identifier: MIT
 *
 * infer_by_scan. The call before a return address distinguishes it from other words of the stack:
 * it names a function, and the pc is shortly after that function's start. If that function only
 * jumps, the pc is shortly after the jump's target. Leftovers of earlier calls can look the same,
 * so the result is never reported as exact.
 */
#include "unwind/infer/infer.h"

/* Words of stack to search; such functions have small frames. */
#define SCAN_WORDS 256
/* Maximum distance of the pc from its function's start. */
#define FUNCTION_BYTES 4096

/* Size of a wrapper that loads an argument into its register and jumps on. */
#define WRAPPER_BYTES 16

static bool lies_behind(uint64_t pc, uint64_t start) {
  return start <= pc && pc - start <= FUNCTION_BYTES;
}

/* True if PC is shortly after START, or after the target of the wrapper at START. */
static bool leads_near(const insn_code_t *code, uint64_t start, uint64_t pc) {
  uint8_t bytes[WRAPPER_BYTES + 8] = {0};
  unsigned step = code->machine == MACHINE_X86_64 ? 1 : 4;
  if (lies_behind(pc, start)) return true;
  if (!insn_is_executable(code->images, start) || !insn_read(code, start, bytes, WRAPPER_BYTES))
    return false;
  for (unsigned i = 0; i < WRAPPER_BYTES; i += step) {
    uint64_t to;
    unsigned length;
    if (insn_jump(code, bytes + i, start + i, &to, &length) == INSN_JUMP_DIRECT)
      return lies_behind(pc, to);
  }
  return false;
}

unwind_step_t infer_by_scan(machine_t machine, memory_t *memory, images_t *images, regs_t *regs) {
  insn_code_t code = {machine, memory, images};
  int sp = machine_sp(machine);
  if (!regs_has(regs, sp) || regs->r[sp] % 8 || !images->find(images, regs->pc))
    return STEP_NO_RULE;
  for (uint64_t at = regs->r[sp]; at < regs->r[sp] + SCAN_WORDS * 8; at += 8) {
    uint64_t word;
    if (!memory->read(memory, at, &word, 8)) return STEP_FAULT;
    if (word < 4096 || !insn_is_executable(images, word - 1)) continue;
    insn_target_t called = insn_call_target(&code, word);
    if (!called.is_known || !leads_near(&code, called.address, regs->pc)) continue;
    regs_t next = {.pc = word};
    regs_set(&next, sp, at + 8);
    *regs = next;
    return STEP_CALLER;
  }
  return STEP_NO_RULE;
}
