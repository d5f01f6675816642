/* SPDX-License-Identifier: MIT
 *
 * Rows inferred from aarch64 code without CFI. The code is what GNU ld, lld and crti.o make
 * (disassembled beside each word), and functions that must not be mistaken for it. The expected
 * rows follow from what the instructions did to sp and x30 before.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "sonde/status.h"
#include "unwind/infer/infer.h"

#define BASE  0x400000u
#define SLIDE 0x10000000u

#define RET  0xd65f03c0
#define NOP  0xd503201f
#define BTI  0xd503245f /* bti c */
#define STP  0xa9bf7bfd /* stp x29, x30, [sp, #-16]! */
#define LDP  0xa8c17bfd /* ldp x29, x30, [sp], #16 */
#define FP   0x910003fd /* mov x29, sp */
#define BL   0x94000040
#define MOV  0x52800020 /* mov w0, #1 */
#define ADRP 0x90000090 /* adrp x16, … */
#define LDR  0xf947e211 /* ldr x17, [x16, #4032] */
#define ADD  0x913f0210 /* add x16, x16, #0xfc0 */
#define BR   0xd61f0220 /* br x17 */

typedef struct code_bytes {
  memory_t memory;
  const uint32_t *words;
  size_t count;
} code_bytes_t;

static bool read_bytes(memory_t *self, uint64_t address, void *out, size_t size) {
  code_bytes_t *c = (code_bytes_t *)self;
  uint64_t at = address - BASE - SLIDE;
  if (at > c->count * 4 || size > c->count * 4 - at) return false;
  memcpy(out, (const uint8_t *)c->words + at, size);
  return true;
}

static int row_of(const uint32_t *words, size_t count, size_t index, bool exact, cfi_row_t *row) {
  code_bytes_t code = {{read_bytes}, words, count};
  image_t image = {.slide = SLIDE,
                   .start = BASE + SLIDE,
                   .end = BASE + SLIDE + count * 4,
                   .segment_count = 1,
                   .segments = {{.address = BASE, .size = count * 4, .flags = 5}}};
  return infer_row(&image, &code.memory, BASE + SLIDE + index * 4, exact, row);
}

/* The expected row at an instruction: none, or the bytes pushed and where x30 is above sp. */
typedef struct expected {
  uint32_t word;
  /* -1: no row. */
  int cfa;
  /* -1: in the register. */
  int x30_at;
} expected_t;

static void check(const char *what, const expected_t *code, size_t count) {
  uint32_t words[256];
  for (size_t i = 0; i < count; i++)
    words[i] = code[i].word;
  for (size_t i = 0; i < count; i++) {
    cfi_row_t row;
    int status = row_of(words, count, i, true, &row);
    if ((status != 0) != (code[i].cfa < 0)) fail_msg("%s, instruction %zu: %d", what, i, status);
    if (status) continue;
    assert_int_equal(row.cfa_register, AARCH64_SP);
    assert_int_equal(row.return_register, AARCH64_LR);
    if (row.cfa_offset != code[i].cfa)
      fail_msg("%s, instruction %zu: CFA sp+%lld", what, i, (long long)row.cfa_offset);
    const cfi_rule_t *x30 = &row.rules[AARCH64_LR];
    int at = x30->how == CFI_OFFSET ? (int)(row.cfa_offset + x30->offset) : -1;
    if (at != code[i].x30_at) fail_msg("%s, instruction %zu: x30 at %d", what, i, at);
    assert_true(row.function_start <= BASE + i * 4 && row.function_end > BASE + i * 4);
  }
}
#define CHECK(...)                                                                                 \
  do {                                                                                             \
    static const expected_t code[] = {__VA_ARGS__};                                                \
    check(__func__, code, sizeof code / sizeof *code);                                             \
  } while (0)

/* GNU ld's lazy table: the first stub pushes what the resolver expects, the others push nothing. */
static void linkage_table(void **state) {
  (void)state;
  CHECK({RET, 0, -1}, {0xa9bf7bf0, 0, -1}, {ADRP, 16, 8}, {LDR, 16, 8}, {ADD, 16, 8}, {BR, 16, 8},
        {NOP, 0, -1}, {NOP, 0, -1}, {NOP, 0, -1}, /* Never executed. */
        {ADRP, 0, -1}, {LDR, 0, -1}, {ADD, 0, -1}, {BR, 0, -1}, {ADRP, 0, -1}, {LDR, 0, -1},
        {ADD, 0, -1}, {BR, 0, -1});
}

static void linkage_table_with_bti(void **state) {
  (void)state;
  CHECK({RET, 0, -1}, {BTI, 0, -1}, {0xa9bf7bf0, 0, -1}, {ADRP, 16, 8}, {LDR, 16, 8}, {ADD, 16, 8},
        {BR, 16, 8}, {NOP, 0, -1}, {NOP, 0, -1}, {BTI, 0, -1}, {ADRP, 0, -1}, {LDR, 0, -1},
        {ADD, 0, -1}, {0xd503219f /* autia1716 */, 0, -1}, {BR, 0, -1}, {NOP, -1, -1});
}

/* crti.o and crtn.o. Data that happens to be before them ends with a word of 0. */
static void init_function(void **state) {
  (void)state;
  CHECK({0, -1, -1}, {NOP, 0, -1}, {STP, 0, -1}, {FP, 16, 8}, {BL, 16, 8}, {LDP, 16, 8},
        {RET, 0, -1}, {0xd503233f /* paciasp */, 0, -1}, {STP, 0, -1}, {FP, 16, 8}, {LDP, 16, 8},
        {0xd50323bf /* autiasp */, 0, -1}, {RET, 0, -1});
}

/* gcc's crtstuff.c: __do_global_dtors_aux, as compiled into libgcc's crtbegin.o. */
static void start_up_code(void **state) {
  (void)state;
  CHECK({RET, 0, -1}, {0xa9be7bfd /* stp x29, x30, [sp, #-32]! */, 0, -1}, {FP, 32, 8},
        {0xf9000bf3 /* str x19, [sp, #16] */, 32, 8}, {0x90000113, 32, 8}, {0x39412260, 32, 8},
        {0x370000e0 /* tbnz w0, #0 */, 32, 8}, {BL, 32, 8}, {MOV, 32, 8}, {0x39012260, 32, 8},
        {0xf9400bf3 /* ldr x19, [sp, #16] */, 32, 8}, {0xa8c27bfd /* ldp …, #32 */, 32, 8},
        {RET, 0, -1});
}

static void other_frames(void **state) {
  (void)state;
  CHECK({RET, 0, -1}, {0xd10103ff /* sub sp, sp, #64 */, 0, -1},
        {0xa9037bfd /* stp x29, x30, [sp, #48] */, 64, -1}, {0x9100c3fd, 64, 56}, {BL, 64, 56},
        {0xa9437bfd /* ldp x29, x30, [sp, #48] */, 64, 56}, {0x910103ff /* add sp, … */, 64, -1},
        {RET, 0, -1});
  CHECK({RET, 0, -1}, {0xf81f0ffe /* str x30, [sp, #-16]! */, 0, -1}, {BL, 16, 0},
        {0xf84107fe /* ldr x30, [sp], #16 */, 16, 0}, {RET, 0, -1});
  CHECK({RET, 0, -1}, {0xd10043ff /* sub sp, sp, #16 */, 0, -1}, {MOV, 16, -1},
        {0x910043ff, 16, -1}, {RET, 0, -1});
}

/* A tail call is followed to its target. */
static void tail_calls(void **state) {
  (void)state;
  CHECK({RET, 0, -1}, {MOV, 0, -1}, {0x14000002 /* b +8 */, 0, -1}, {RET, 0, -1}, {STP, 0, -1},
        {FP, 16, 8}, {BL, 16, 8}, {LDP, 16, 8}, {RET, 0, -1});
}

/* Parts of a function with a frame that look like a leaf in one direction. */
static void not_certain(void **state) {
  (void)state;
  /* An early return in the middle; then a part that jumps back to the epilogue. */
  CHECK({RET, 0, -1}, {STP, 0, -1}, {FP, 16, 8}, {LDP, 16, 8}, {RET, 0, -1}, {MOV, -1, -1},
        {0x17fffffd /* b -12, to the ldp */, -1, -1});
  /* A part that ends with a call that does not return; the next function follows. */
  CHECK({RET, 0, -1}, {STP, 0, -1}, {FP, 16, 8}, {LDP, 16, 8}, {RET, 0, -1}, {MOV, -1, -1},
        {BL, -1, -1}, {STP, -1, -1}, {LDP, 16, 8}, {RET, 0, -1});
  CHECK({RET, 0, -1}, {STP, 0, -1}, {FP, 16, 8}, {LDP, 16, 8}, {RET, 0, -1}, {MOV, -1, -1},
        {0xd4207d00 /* brk #1000 */, -1, -1}, {STP, 0, -1}, {LDP, 16, 8}, {RET, 0, -1});
  /* A switch. */
  CHECK({RET, 0, -1}, {MOV, -1, -1}, {0xd61f0020 /* br x1 */, -1, -1}, {MOV, -1, -1},
        {0xd61f0020, -1, -1});
  /* sp from a register. */
  CHECK({RET, 0, -1}, {MOV, -1, -1}, {0x910003bf /* mov sp, x29 */, -1, -1}, {RET, -1, -1});
}

/* A return address in code that has not saved x30 has no row. */
static void return_addresses(void **state) {
  (void)state;
  cfi_row_t row;
  static const uint32_t init[] = {RET, STP, FP, BL, LDP, RET}, leaf[] = {RET, MOV, MOV, RET};
  assert_int_equal(row_of(init, 6, 4, false, &row), 0);
  assert_int_equal(row.cfa_offset, 16);
  assert_int_equal(row_of(leaf, 4, 2, false, &row), SONDE_ENOTFOUND);
  assert_int_equal(row_of(leaf, 4, 2, true, &row), 0);
}

/* Any words: there is a result, and it is always a possible row. */
static void random_code(void **state) {
  (void)state;
  const char *given = getenv("SONDE_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL), x = seed | 1;
  static const uint32_t usual[] = {RET,        NOP,        STP,        LDP,        FP,
                                   BL,         MOV,        BR,         0x14000003, 0x17fffff0,
                                   0xd10103ff, 0x910103ff, 0xa9bf7bf0, 0};
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int round = 0; round < 20000; round++) {
    uint32_t words[100];
    for (int i = 0; i < 100; i++) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      words[i] = x & 0x300 ? usual[(x >> 16) % 14] : (uint32_t)(x >> 20);
    }
    cfi_row_t row;
    size_t at = (x >> 33) % 100;
    if (row_of(words, 100, at, x & 1, &row)) continue;
    assert_true(row.cfa_offset >= 0);
    assert_in_range(row.function_start, BASE, BASE + at * 4);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(linkage_table), cmocka_unit_test(linkage_table_with_bti),
      cmocka_unit_test(init_function), cmocka_unit_test(start_up_code),
      cmocka_unit_test(other_frames),  cmocka_unit_test(tail_calls),
      cmocka_unit_test(not_certain),   cmocka_unit_test(return_addresses),
      cmocka_unit_test(random_code),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
