/* SPDX-License-Identifier: MIT
 *
 * Rows converted to rules: which rows fit, what the rule says, and which rows must be interpreted.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "frame_bytes.h"
#include "unwind/rule.h"

/* A row of x86_64: CFA = REG + OFFSET, the return address just below, the frame pointer SAVED bytes
 * below (0: not saved). */
static cfi_row_t x86_64_row(int reg, int64_t offset, int saved) {
  cfi_row_t row = {
      .cfa_register = (uint8_t)reg, .cfa_offset = offset, .return_register = X86_64_RA};
  row.rules[X86_64_RA] = (cfi_rule_t){.how = CFI_OFFSET, .offset = -8};
  if (saved) row.rules[X86_64_RBP] = (cfi_rule_t){.how = CFI_OFFSET, .offset = -saved};
  return row;
}

static cfi_row_t aarch64_row(int reg, int64_t offset, int saved_fp, int saved_lr) {
  cfi_row_t row = {
      .cfa_register = (uint8_t)reg, .cfa_offset = offset, .return_register = AARCH64_LR};
  if (saved_fp) row.rules[AARCH64_FP] = (cfi_rule_t){.how = CFI_OFFSET, .offset = -saved_fp};
  if (saved_lr) row.rules[AARCH64_LR] = (cfi_rule_t){.how = CFI_OFFSET, .offset = -saved_lr};
  return row;
}

static void expect(rule_t rule, rule_kind_t kind, uint64_t cfa, uint64_t save, uint32_t ra) {
  assert_int_equal(rule_kind(rule), kind);
  assert_int_equal(rule_cfa_bytes(rule), cfa);
  assert_int_equal(rule_save_bytes(rule), save);
  assert_int_equal(rule_ra(rule), ra);
}

static void fields_do_not_touch_each_other(void **state) {
  (void)state;
  static const uint32_t cfa[] = {0, 1, 2, 100, RULE_CFA_WORDS_MAX},
                        save[] = {0, 1, 2, 77, RULE_SAVE_WORDS_MAX};
  for (int kind = RULE_SP; kind <= RULE_NONE; kind++)
    for (int c = 0; c < 5; c++)
      for (int s = 0; s < 5; s++)
        for (uint32_t ra = 0; ra < 3; ra++)
          expect(rule_make((rule_kind_t)kind, cfa[c], save[s], ra), (rule_kind_t)kind, cfa[c] * 8,
                 save[s] * 8, ra);
}

static void plain_rows_of_x86_64(void **state) {
  (void)state;
  cfi_row_t row = x86_64_row(X86_64_RSP, 8, 0);
  expect(rule_of_row(MACHINE_X86_64, &row, 0), RULE_SP, 8, 0, RA_BELOW_CFA);
  row = x86_64_row(X86_64_RSP, 4096, 56);
  expect(rule_of_row(MACHINE_X86_64, &row, 0), RULE_SP, 4096, 56, RA_BELOW_CFA);
  row = x86_64_row(X86_64_RBP, 16, 16);
  expect(rule_of_row(MACHINE_X86_64, &row, 0), RULE_FP, 16, 16, RA_BELOW_CFA);
}

static void plain_rows_of_aarch64(void **state) {
  (void)state;
  cfi_row_t row = aarch64_row(AARCH64_SP, 0, 0, 0);
  expect(rule_of_row(MACHINE_AARCH64, &row, 0), RULE_SP, 0, 0, RA_IN_LR);
  row = aarch64_row(AARCH64_SP, 48, 48, 40);
  expect(rule_of_row(MACHINE_AARCH64, &row, 0), RULE_SP, 48, 48, RA_ABOVE_SAVED);
  row = aarch64_row(AARCH64_FP, 16, 16, 8);
  expect(rule_of_row(MACHINE_AARCH64, &row, 0), RULE_FP, 16, 16, RA_BELOW_CFA);
  /* x30 is in neither of the two places. */
  row = aarch64_row(AARCH64_SP, 48, 48, 16);
  assert_int_equal(rule_kind(rule_of_row(MACHINE_AARCH64, &row, 0)), RULE_INTERPRET);
}

static void ends_and_signals(void **state) {
  (void)state;
  cfi_row_t row = x86_64_row(X86_64_RSP, 8, 0);
  row.rules[X86_64_RA].how = CFI_UNDEFINED;
  assert_int_equal(rule_kind(rule_of_row(MACHINE_X86_64, &row, 0)), RULE_END);
  row = x86_64_row(X86_64_RSP, 8, 0);
  row.signal_frame = true;
  assert_int_equal(rule_kind(rule_of_row(MACHINE_X86_64, &row, 0)), RULE_SIGNAL);
}

static void what_does_not_fit_is_interpreted(void **state) {
  (void)state;
  cfi_row_t rows[] = {
      x86_64_row(10, 8, 0),                                    /* another register */
      x86_64_row(X86_64_RSP, -8, 0),                           /* below it */
      x86_64_row(X86_64_RSP, 20, 0),                           /* not whole words */
      x86_64_row(X86_64_RSP, 8 * (RULE_CFA_WORDS_MAX + 1), 0), /* too far */
      x86_64_row(X86_64_RSP, 1 << 16, 8 * RULE_SAVE_WORDS_MAX + 8),
      x86_64_row(X86_64_RSP, 16, 24), /* saved below the stack pointer */
      x86_64_row(X86_64_RSP, 0, 0),   /* and so the return address */
      x86_64_row(X86_64_RSP, 16, 0),  /* rbp elsewhere, see below */
      x86_64_row(X86_64_RSP, 16, 0),  /* rsp elsewhere */
  };
  rows[7].rules[X86_64_RBP] = (cfi_rule_t){.how = CFI_REGISTER, .offset = 3};
  rows[8].rules[X86_64_RSP] = (cfi_rule_t){.how = CFI_OFFSET, .offset = -16};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(rule_kind(rule_of_row(MACHINE_X86_64, &rows[i], 0)), RULE_INTERPRET);
}

/* ld's row for a PLT: rsp + 8, and 8 more from the 11th byte of each stub of 16 on, by an
 * expression over the pc. At one pc it is a constant; over another register it is not. */
static void expressions_that_are_constant_at_a_pc(void **state) {
  (void)state;
  static const uint8_t plt[] = {0x77, 8,              /* DW_OP_breg7 8 */
                                0x80, 0,              /* DW_OP_breg16 0: the pc */
                                0x3f, 0x1a,           /* DW_OP_lit15, DW_OP_and */
                                0x3b, 0x2a,           /* DW_OP_lit11, DW_OP_ge */
                                0x33, 0x24,           /* DW_OP_lit3, DW_OP_shl */
                                0x22};                /* DW_OP_plus */
  static const uint8_t by_memory[] = {0x77, 8, 0x06}; /* DW_OP_deref */
  for (uint64_t pc = 0x1000; pc < 0x1020; pc++) {
    cfi_row_t row = x86_64_row(0, 0, 0);
    row.cfa_is_expression = true;
    row.expressions = plt;
    row.cfa_length = sizeof plt;
    expect(rule_of_row(MACHINE_X86_64, &row, pc), RULE_SP, pc % 16 >= 11 ? 16 : 8, 0, RA_BELOW_CFA);
    row.expressions = by_memory;
    row.cfa_length = sizeof by_memory;
    assert_int_equal(rule_kind(rule_of_row(MACHINE_X86_64, &row, pc)), RULE_INTERPRET);
  }
}

/* From the image's bytes: an exact pc has the row at it, a return address that of its call. */
static void learned_from_an_image(void **state) {
  (void)state;
  static const uint8_t cie[] = {DEF_CFA, X86_64_RSP, 8, OFFSET | X86_64_RA, 1},
                       fde[] = {ADVANCE | 4, DEF_CFA_OFFSET, 32};
  frame_bytes_t bytes;
  MAKE_FRAMES(&bytes, 1, -8, X86_64_RA, 0x1000, 16, cie, fde);
  image_t image = image_of_frames(&bytes, 0x70000000);
  const uint64_t at = 0x70001000;
  expect(rule_learn(MACHINE_X86_64, &image, at + 4, true), RULE_SP, 32, 0, RA_BELOW_CFA);
  expect(rule_learn(MACHINE_X86_64, &image, at + 4, false), RULE_SP, 8, 0, RA_BELOW_CFA);
  expect(rule_learn(MACHINE_X86_64, &image, at + 16, false), RULE_SP, 32, 0, RA_BELOW_CFA);
  assert_int_equal(rule_kind(rule_learn(MACHINE_X86_64, &image, at + 16, true)), RULE_NONE);
  /* A fiber ends at a function's first instruction, which no call entered. */
  assert_int_equal(rule_kind(rule_learn(MACHINE_X86_64, &image, at, false)), RULE_END);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fields_do_not_touch_each_other),
      cmocka_unit_test(plain_rows_of_x86_64),
      cmocka_unit_test(plain_rows_of_aarch64),
      cmocka_unit_test(ends_and_signals),
      cmocka_unit_test(what_does_not_fit_is_interpreted),
      cmocka_unit_test(expressions_that_are_constant_at_a_pc),
      cmocka_unit_test(learned_from_an_image),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
