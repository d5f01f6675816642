/* SPDX-License-Identifier: MIT
 *
 * Converts a row of call frame information into a rule.
 */
#include "unwind/rule.h"

/* Evaluates a CFA expression over two stack pointers, to find one that adds a constant to the stack
 * pointer at this pc. PLT stubs have such expressions, which compute with the low bits of the pc.
 */
static bool constant_over_sp(machine_t machine, const cfi_row_t *row, uint64_t pc,
                             int64_t *offset) {
  const uint64_t probes[2] = {0x7000, 0x123456780};
  uint64_t results[2];
  for (int i = 0; i < 2; i++) {
    regs_t regs = {.pc = pc};
    unsigned touched;
    regs_set(&regs, machine_sp(machine), probes[i]);
    if (cfi_evaluate(row->expressions + row->cfa_offset, row->cfa_length, machine, &regs, NULL,
                     NULL, &results[i], &touched) ||
        touched)
      return false;
  }
  *offset = (int64_t)(results[0] - probes[0]);
  return results[1] - probes[1] == results[0] - probes[0];
}

/* Gets the words from the CFA down to where register N is saved; 0 if it is not saved. Returns
 * false if no rule can express where the caller's value is. */
static bool saved_words(const cfi_row_t *row, int n, uint32_t *words) {
  const cfi_rule_t *rule = &row->rules[n];
  *words = 0;
  if (rule->how == CFI_SAME) return true;
  if (rule->how != CFI_OFFSET || rule->offset >= 0 || rule->offset % 8) return false;
  *words = (uint32_t)(-(int64_t)rule->offset / 8);
  return *words <= RULE_SAVE_WORDS_MAX;
}

static bool return_address(machine_t machine, const cfi_row_t *row, uint32_t saved, uint32_t *ra) {
  uint32_t words;
  if (!saved_words(row, row->return_register, &words)) return false;
  if (words == 1)
    *ra = RA_BELOW_CFA;
  else if (machine == MACHINE_AARCH64 && words == 0)
    *ra = RA_IN_LR;
  else if (machine == MACHINE_AARCH64 && saved && words == saved - 1)
    *ra = RA_ABOVE_SAVED;
  else
    return false;
  return true;
}

rule_t rule_of_row(machine_t machine, const cfi_row_t *row, uint64_t pc) {
  const rule_t interpret = rule_make(RULE_INTERPRET, 0, 0, 0);
  if (row->signal_frame) return rule_make(RULE_SIGNAL, 0, 0, 0);
  if (row->rules[row->return_register].how == CFI_UNDEFINED) return rule_make(RULE_END, 0, 0, 0);
  int64_t offset = row->cfa_offset;
  int base = row->cfa_register;
  if (row->cfa_is_expression) {
    if (!constant_over_sp(machine, row, pc, &offset)) return interpret;
    base = machine_sp(machine);
  }
  if (base != machine_sp(machine) && base != machine_fp(machine)) return interpret;
  if (offset < 0 || offset % 8 || (uint64_t)offset / 8 > RULE_CFA_WORDS_MAX) return interpret;
  if (row->rules[machine_sp(machine)].how != CFI_SAME) return interpret;
  uint32_t saved, ra;
  if (!saved_words(row, machine_fp(machine), &saved) || !return_address(machine, row, saved, &ra))
    return interpret;
  rule_kind_t kind = base == machine_sp(machine) ? RULE_SP : RULE_FP;
  /* Saved values are at or above the stack pointer, so a walk need not check that. */
  uint32_t deepest = saved ? saved : ra == RA_IN_LR ? 0 : 1;
  if (kind == RULE_SP && (uint64_t)offset / 8 < deepest) return interpret;
  return rule_make(kind, (uint32_t)(offset / 8), saved, ra);
}

rule_t rule_learn(machine_t machine, const image_t *image, uint64_t pc, bool exact) {
  cfi_row_t row;
  int status = cfi_find_frame_row(image, machine, pc - image->slide, exact, &row);
  if (status) return rule_make(RULE_NONE, 0, 0, 0);
  return rule_of_row(machine, &row, exact ? pc : pc - 1);
}
