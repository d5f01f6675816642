/* SPDX-License-Identifier: MIT
 *
 * Call frame programs written by hand, and their rows by DWARF 5 section 6.4: the standard's own
 * example (appendix D.6), and each instruction alone.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "frame_bytes.h"
#include "sonde/status.h"
#include "unwind/cfi_step.h"

#define START 0x1000u

static frame_bytes_t bytes;

static cfi_row_t row_at(uint64_t address) {
  image_t image = image_of_frames(&bytes, 0);
  cfi_row_t row;
  assert_int_equal(cfi_find_row(&image, address, &row), 0);
  return row;
}

static int status_at(uint64_t address) {
  image_t image = image_of_frames(&bytes, 0);
  cfi_row_t row;
  return cfi_find_row(&image, address, &row);
}

static void expect_cfa(const cfi_row_t *row, int reg, int64_t offset) {
  assert_false(row->cfa_is_expression);
  assert_int_equal(row->cfa_register, reg);
  assert_int_equal(row->cfa_offset, offset);
}

static void expect_rule(const cfi_row_t *row, int n, cfi_how_t how, int offset) {
  assert_int_equal(row->rules[n].how, how);
  assert_int_equal(row->rules[n].offset, offset);
}

/* A function that allocates 64 bytes, saves R8 (its return address), R6 and R4, counts from R6 in
 * its body, and releases all of it. Instructions of 4 bytes, factors 4 and -4. */
static void example_of_the_standard(void **state) {
  (void)state;
  static const uint8_t cie[] = {DEF_CFA, 7,          0, SAME_VALUE, 0, UNDEFINED,  1, UNDEFINED,
                                2,       UNDEFINED,  3, SAME_VALUE, 4, SAME_VALUE, 5, SAME_VALUE,
                                6,       SAME_VALUE, 7, REGISTER,   8, 1};
  static const uint8_t fde[] = {ADVANCE | 1,
                                DEF_CFA_OFFSET,
                                64,
                                ADVANCE | 1,
                                OFFSET | 8,
                                1,
                                ADVANCE | 1,
                                OFFSET | 6,
                                2,
                                ADVANCE | 1,
                                DEF_CFA_REGISTER,
                                6,
                                ADVANCE | 1,
                                OFFSET | 4,
                                3,
                                ADVANCE | 12,
                                RESTORE | 4,
                                ADVANCE | 1,
                                RESTORE | 6,
                                DEF_CFA_REGISTER,
                                7,
                                ADVANCE | 1,
                                RESTORE | 8,
                                ADVANCE | 1,
                                DEF_CFA_OFFSET,
                                0};
  MAKE_FRAMES(&bytes, 4, -4, 8, START, 84, cie, fde);
  /* At each instruction: the CFA's register and offset, and where R8, R6 and R4 are (0: not saved).
   */
  for (uint64_t at = 0; at < 84; at++) {
    uint64_t n = at / 4;
    cfi_row_t row = row_at(START + at);
    expect_cfa(&row, n >= 4 && n < 18 ? 6 : 7, n >= 1 && n < 20 ? 64 : 0);
    if (n >= 2 && n < 19)
      expect_rule(&row, 8, CFI_OFFSET, -4);
    else
      expect_rule(&row, 8, CFI_REGISTER, 1);
    expect_rule(&row, 6, n >= 3 && n < 18 ? CFI_OFFSET : CFI_SAME, n >= 3 && n < 18 ? -8 : 0);
    expect_rule(&row, 4, n >= 5 && n < 17 ? CFI_OFFSET : CFI_SAME, n >= 5 && n < 17 ? -12 : 0);
    expect_rule(&row, 2, CFI_UNDEFINED, 0);
    assert_int_equal(row.return_register, 8);
    assert_int_equal(row.function_start, START);
    assert_int_equal(row.function_end, START + 84);
    assert_true(row.row_start <= START + at && START + at < row.row_end);
  }
  assert_int_equal(status_at(START - 1), SONDE_ENOTFOUND);
  assert_int_equal(status_at(START + 84), SONDE_ENOTFOUND);
}

static const uint8_t plain_cie[] = {DEF_CFA, 7, 8, OFFSET | 16, 1};

static cfi_row_t row_of(const uint8_t *code, size_t size) {
  put_cie(&bytes, 1, -8, 16, plain_cie, sizeof plain_cie);
  put_fde(&bytes, START, 0x100000, code, size);
  return row_at(START);
}
#define ROW_OF(...) row_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void every_register_rule(void **state) {
  (void)state;
  cfi_row_t row = ROW_OF(UNDEFINED, 3);
  expect_cfa(&row, 7, 8);
  expect_rule(&row, 16, CFI_OFFSET, -8);
  expect_rule(&row, 3, CFI_UNDEFINED, 0);
  row = ROW_OF(OFFSET | 3, 2, SAME_VALUE, 3);
  expect_rule(&row, 3, CFI_SAME, 0);
  row = ROW_OF(OFFSET_EXTENDED, 3, 0x90, 0x01); /* uleb128 144 */
  expect_rule(&row, 3, CFI_OFFSET, -144 * 8);
  row = ROW_OF(OFFSET_EXTENDED_SF, 3, 0x7e); /* sleb128 -2 */
  expect_rule(&row, 3, CFI_OFFSET, 16);
  row = ROW_OF(VAL_OFFSET, 3, 4);
  expect_rule(&row, 3, CFI_VAL_OFFSET, -32);
  row = ROW_OF(VAL_OFFSET_SF, 3, 0x7f);
  expect_rule(&row, 3, CFI_VAL_OFFSET, 8);
  row = ROW_OF(REGISTER, 3, 12);
  expect_rule(&row, 3, CFI_REGISTER, 12);
  row = ROW_OF(OFFSET | 16, 5, RESTORE | 16);
  expect_rule(&row, 16, CFI_OFFSET, -8);
  row = ROW_OF(OFFSET | 16, 5, RESTORE_EXTENDED, 16);
  expect_rule(&row, 16, CFI_OFFSET, -8);
  row = ROW_OF(EXPRESSION, 3, 2, 0x77, 0x10, VAL_EXPRESSION, 6, 1, 0x30);
  assert_int_equal(row.rules[3].how, CFI_EXPRESSION);
  assert_int_equal(row.rules[3].length, 2);
  assert_int_equal(row.expressions[row.rules[3].offset], 0x77);
  assert_int_equal(row.rules[6].how, CFI_VAL_EXPRESSION);
  assert_int_equal(row.expressions[row.rules[6].offset], 0x30);
  /* Register 128: not relevant for a walk. */
  row = ROW_OF(OFFSET_EXTENDED, 0x80, 0x01, 2);
  expect_rule(&row, 3, CFI_SAME, 0);
}

static void every_cfa_rule(void **state) {
  (void)state;
  cfi_row_t row = ROW_OF(DEF_CFA, 6, 0xa0, 0x02); /* 288, not factored */
  expect_cfa(&row, 6, 288);
  row = ROW_OF(DEF_CFA_SF, 6, 0x7d); /* -3, factored */
  expect_cfa(&row, 6, 24);
  row = ROW_OF(DEF_CFA_REGISTER, 10);
  expect_cfa(&row, 10, 8);
  row = ROW_OF(DEF_CFA_OFFSET, 48);
  expect_cfa(&row, 7, 48);
  row = ROW_OF(DEF_CFA_OFFSET_SF, 0x7c);
  expect_cfa(&row, 7, 32);
  row = ROW_OF(DEF_CFA_EXPRESSION, 2, 0x77, 0x10); /* DW_OP_breg7 16 */
  assert_true(row.cfa_is_expression);
  assert_int_equal(row.cfa_length, 2);
  assert_memory_equal(row.expressions + row.cfa_offset, "\x77\x10", 2);
  row = ROW_OF(DEF_CFA_EXPRESSION, 2, 0x77, 0x10, DEF_CFA, 7, 16);
  expect_cfa(&row, 7, 16);
}

static void states_are_remembered(void **state) {
  (void)state;
  cfi_row_t row = ROW_OF(DEF_CFA_OFFSET, 16, OFFSET | 3, 2, REMEMBER, DEF_CFA_OFFSET, 64, UNDEFINED,
                         3, REMEMBER, DEF_CFA_REGISTER, 6, RESTORE_STATE, RESTORE_STATE);
  expect_cfa(&row, 7, 16);
  expect_rule(&row, 3, CFI_OFFSET, -16);
}

static void every_way_to_advance(void **state) {
  (void)state;
  static const uint8_t fde[] = {ADVANCE | 63,
                                DEF_CFA_OFFSET,
                                16,
                                ADVANCE1,
                                200,
                                DEF_CFA_OFFSET,
                                24,
                                ADVANCE2,
                                0,
                                2,
                                DEF_CFA_OFFSET,
                                32,
                                ADVANCE4,
                                0,
                                0,
                                1,
                                0,
                                DEF_CFA_OFFSET,
                                40};
  static const uint64_t starts[] = {0, 63, 263, 775, 66311, 0x100000};
  put_cie(&bytes, 1, -8, 16, plain_cie, sizeof plain_cie);
  put_fde(&bytes, START, 0x100000, fde, sizeof fde);
  for (int i = 0; i < 5; i++) {
    for (int last = 0; last < 2; last++) {
      cfi_row_t row = row_at(START + (last ? starts[i + 1] - 1 : starts[i]));
      expect_cfa(&row, 7, 8 + 8 * i);
      assert_int_equal(row.row_start, START + starts[i]);
      assert_int_equal(row.row_end, START + starts[i + 1]);
    }
  }
}

static void set_loc_and_signed_return_addresses(void **state) {
  (void)state;
  frame_bytes_t code = {.size = 0};
  const uint8_t first[] = {NEGATE_RA_STATE, SET_LOC}, then[] = {NEGATE_RA_STATE};
  put_bytes(&code, first, 2);
  put_u64(&code, START + 40);
  put_bytes(&code, then, 1);
  put_cie(&bytes, 4, -8, 30, (const uint8_t[]){DEF_CFA, 31, 0}, 3);
  put_fde(&bytes, START, 80, code.data, code.size);
  assert_true(row_at(START + 36).ra_signed);
  assert_false(row_at(START + 40).ra_signed);
}

static void malformed_programs(void **state) {
  (void)state;
  static const uint8_t bad[][3] = {{RESTORE_STATE, 0, 0},
                                   {0x3f, 0, 0},
                                   {DEF_CFA, 200, 8},
                                   {EXPRESSION, 3, 0x7f},
                                   {DEF_CFA, 0x80, 0x80}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    put_cie(&bytes, 1, -8, 16, plain_cie, sizeof plain_cie);
    put_fde(&bytes, START, 16, bad[i], 3);
    assert_int_equal(status_at(START), SONDE_EFORMAT);
  }
  uint8_t remember[200];
  memset(remember, REMEMBER, sizeof remember);
  put_cie(&bytes, 1, -8, 16, plain_cie, sizeof plain_cie);
  put_fde(&bytes, START, 16, remember, sizeof remember);
  assert_int_equal(status_at(START), SONDE_EFORMAT);
}

/* ---- rows applied --------------------------------------------------------------------------- */

/* The memory of the walk; addresses are those of the array. */
static uint64_t stack[64];

static bool read_stack(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  uint64_t base = (uint64_t)(uintptr_t)stack;
  if (address < base || size > sizeof stack || address - base > sizeof stack - size) return false;
  memcpy(out, (const uint8_t *)stack + (address - base), size);
  return true;
}

static image_t the_image;
static const image_t *find(images_t *self, uint64_t pc) {
  (void)self;
  return pc - the_image.slide < 0x100000 ? &the_image : NULL;
}

/* r11 holds the caller's stack pointer around a call within the library. The value left in r11 is
 * used for the CFA, though calls need not preserve it, and never as a register's own value. */
static void cfa_by_a_register_that_calls_may_clobber(void **state) {
  (void)state;
  static const uint8_t inner[] = {0}, outer[] = {DEF_CFA, 11, 8};
  memory_t memory = {read_stack};
  images_t images = {find};
  regs_t regs = {.pc = START + 2};
  put_cie(&bytes, 1, -8, 16, plain_cie, sizeof plain_cie);
  put_fde(&bytes, START, 16, inner, sizeof inner);
  put_fde(&bytes, START + 0x100, 16, outer, sizeof outer);
  the_image = image_of_frames(&bytes, 0);
  /* The return address of the inner frame. */
  stack[4] = START + 0x108;
  /* The outer frame's return address, 8 above where r11 points. */
  stack[20] = 0x90000;
  regs_set(&regs, X86_64_RSP, (uint64_t)(uintptr_t)&stack[4]);
  regs_set(&regs, 11, (uint64_t)(uintptr_t)&stack[20]);
  assert_int_equal(cfi_step(MACHINE_X86_64, &memory, &images, &regs, true), STEP_CALLER);
  assert_int_equal(regs.pc, START + 0x108);
  assert_false(regs_has(&regs, 11));
  assert_int_equal(cfi_step(MACHINE_X86_64, &memory, &images, &regs, false), STEP_CALLER);
  assert_int_equal(regs.pc, 0x90000);
  assert_int_equal(regs.r[X86_64_RSP], (uint64_t)(uintptr_t)&stack[21]);
}

/* A return address in an image's entry code, which no row covers, with the stack pointer at word
 * AT. */
static unwind_step_t step_in_entry(uint64_t into, size_t at, bool exact) {
  memory_t memory = {read_stack};
  images_t images = {find};
  regs_t regs = {.pc = START + into};
  regs_set(&regs, X86_64_RSP, (uint64_t)(uintptr_t)&stack[at]);
  return cfi_step(MACHINE_X86_64, &memory, &images, &regs, exact);
}

/* ld.so calls constructors from its entry code. That is the thread's first frame if the stack holds
 * what the kernel put there. */
static void entry_code_is_the_first_frame(void **state) {
  (void)state;
  static const uint8_t far[] = {0};
  put_cie(&bytes, 1, -8, 16, plain_cie, sizeof plain_cie);
  put_fde(&bytes, START + 0x800, 16, far, sizeof far);
  the_image = image_of_frames(&bytes, 0);
  the_image.entry = START;
  memset(stack, 0x55, sizeof stack);
  /* argc, argv, the null after it. */
  stack[20] = 3;
  stack[24] = 0;
  assert_int_equal(step_in_entry(48, 20, false), STEP_END);
  /* Aligned down. */
  assert_int_equal(step_in_entry(48, 19, false), STEP_END);
  assert_int_equal(step_in_entry(0, 20, true), STEP_END);
  /* Before it. */
  assert_int_equal(step_in_entry(0, 20, false), STEP_NO_RULE);
  assert_int_equal(step_in_entry(48, 18, false), STEP_NO_RULE);
  assert_int_equal(step_in_entry(48, 21, false), STEP_NO_RULE);
  /* After it. */
  assert_int_equal(step_in_entry(200, 20, false), STEP_NO_RULE);
  stack[24] = 0x55;
  assert_int_equal(step_in_entry(48, 20, false), STEP_NO_RULE);
  stack[20] = UINT64_MAX;
  assert_int_equal(step_in_entry(48, 20, false), STEP_NO_RULE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(example_of_the_standard),
      cmocka_unit_test(every_register_rule),
      cmocka_unit_test(every_cfa_rule),
      cmocka_unit_test(states_are_remembered),
      cmocka_unit_test(every_way_to_advance),
      cmocka_unit_test(set_loc_and_signed_return_addresses),
      cmocka_unit_test(malformed_programs),
      cmocka_unit_test(cfa_by_a_register_that_calls_may_clobber),
      cmocka_unit_test(entry_code_is_the_first_frame),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
