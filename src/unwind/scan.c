/* SPDX-License-Identifier: MIT
 *
 * What a call left on the stack can be told from other words by the call itself: it stands before
 * the return address and names a function, and the pc lies in that function or shortly behind its
 * start. Words that earlier calls left behind can look the same, which is why nobody calls this
 * exact.
 */
#include "unwind/scan.h"

#include "unwind/callsite.h"

#define SCAN_WORDS     256  /* of stack; such functions have small frames */
#define FUNCTION_BYTES 4096 /* how far behind a function's start the pc may lie */

step_t scan_step(machine_t machine, memory_t *memory, images_t *images, regs_t *regs) {
  code_t code = {machine, memory, images};
  int sp = machine_sp(machine);
  if (!regs_has(regs, sp) || regs->r[sp] % 8 || !images->find(images, regs->pc))
    return STEP_NO_RULE;
  for (uint64_t at = regs->r[sp]; at < regs->r[sp] + SCAN_WORDS * 8; at += 8) {
    uint64_t word;
    if (!memory->read(memory, at, &word, 8)) return STEP_FAULT;
    if (word < 4096 || !code_is_executable(&code, word - 1)) continue;
    goal_t called = callsite_target(&code, word);
    if (!called.is_known || called.address > regs->pc || regs->pc - called.address > FUNCTION_BYTES)
      continue;
    regs_t next = {.pc = word};
    regs_set(&next, sp, at + 8);
    *regs = next;
    return STEP_CALLER;
  }
  return STEP_NO_RULE;
}
