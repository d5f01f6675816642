/* SPDX-License-Identifier: MIT
 *
 * Positions, lines and strings of Python code objects; the chain of frames of each version, in
 * memory that a test writes.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "python/chain.h"
#include "python/code.h"
#include "python/frame_pc.h"
#include "python/gil.h"

/* ---- lines ------------------------------------------------------------------------------------
 */

static void finds_lines_to_3_9(void **state) {
  (void)state;
  /* 4 bytes in line 10, 4 in 11, 2 in 9 */
  static const uint8_t table[] = {0, 0, 4, 1, 4, 0xfe};
  assert_int_equal(python_line(9, 10, table, sizeof table, 0), 10);
  assert_int_equal(python_line(9, 10, table, sizeof table, 3), 10);
  assert_int_equal(python_line(9, 10, table, sizeof table, 4), 11);
  assert_int_equal(python_line(9, 10, table, sizeof table, 100), 9);
  assert_int_equal(python_line(9, 10, table, sizeof table, PYTHON_NOT_BEGUN), 10);
  assert_int_equal(python_line(9, 10, NULL, 0, 6), 10);
}

static void finds_lines_of_3_10(void **state) {
  (void)state;
  /* 4 bytes in line 10, 2 without a line, 254 + 6 in 12 */
  static const uint8_t table[] = {4, 0, 2, 0x80, 254, 2, 6, 0};
  assert_int_equal(python_line(10, 10, table, sizeof table, 2), 10);
  assert_int_equal(python_line(10, 10, table, sizeof table, 4), 0);
  assert_int_equal(python_line(10, 10, table, sizeof table, 6), 12);
  assert_int_equal(python_line(10, 10, table, sizeof table, 265), 12);
  assert_int_equal(python_line(10, 10, table, sizeof table, 266), 0);
  assert_int_equal(python_line(10, 10, table, sizeof table, PYTHON_NOT_BEGUN), 10);
}

static void finds_lines_from_3_11(void **state) {
  (void)state;
  static const uint8_t table[] = {
      0x80 | 13 << 3 | 0, 0,                  /* 1 instruction, same line, no columns */
      0x80 | 11 << 3 | 1, 5,      9,          /* 2 instructions, next line */
      0x80 | 15 << 3 | 0,                     /* 1 instruction without a line */
      0x80 | 14 << 3 | 7, 64 | 3, 2, 0, 1, 2, /* 8 instructions, long form: 131 = 65 lines back */
      0x80 | 2 << 3 | 0,  0x11,               /* short form: the same line */
  };
  assert_int_equal(python_line(11, 100, table, sizeof table, 0), 100);
  assert_int_equal(python_line(11, 100, table, sizeof table, 2), 101);
  assert_int_equal(python_line(12, 100, table, sizeof table, 4), 101);
  assert_int_equal(python_line(13, 100, table, sizeof table, 6), 0);
  assert_int_equal(python_line(11, 100, table, sizeof table, 8), 36);
  assert_int_equal(python_line(11, 100, table, sizeof table, 24), 36);
  assert_int_equal(python_line(11, 100, table, sizeof table, 26), 0);
  /* damaged: no first byte of an entry; cut */
  assert_int_equal(python_line(11, 100, table + 1, sizeof table - 1, 0), 0);
  assert_int_equal(python_line(11, 100, table, 1, 0), 0);
}

static void pcs_hold_code_and_position(void **state) {
  (void)state;
  uint64_t pc = python_pc(PYTHON_CODES_MAX - 1, 0x123456);
  assert_true(python_pc_is(pc));
  assert_int_equal(python_pc_code(pc), PYTHON_CODES_MAX - 1);
  assert_int_equal(python_pc_position(pc), 0x123456);
  assert_int_equal(python_pc_position(python_pc(5, PYTHON_NOT_BEGUN)), PYTHON_NOT_BEGUN);
  /* a position that does not fit has no line */
  uint32_t far = python_pc_position(python_pc(5, 0x2000000));
  static const uint8_t table[] = {0x80 | 13 << 3 | 0, 0};
  assert_int_equal(python_line(11, 7, table, sizeof table, far), 0);
  assert_false(python_pc_is(0x7fffffffffff));
  assert_false(python_pc_is(0xffffffffff600000));
}

static void positions_are_checked(void **state) {
  (void)state;
  const python_layout_t *v11 = python_layout(0x030b02f0), *v9 = python_layout(0x030900f0);
  uint32_t position;
  assert_true(python_position(v11, 0x1000, 0x1000 + v11->code_bytes + 6, &position));
  assert_int_equal(position, 6);
  assert_true(python_position(v11, 0x1000, 0x1000 + v11->code_bytes - 2, &position));
  assert_int_equal(position, PYTHON_NOT_BEGUN);
  assert_false(python_position(v11, 0x1000, 0x1000 + v11->code_bytes - 4, &position));
  assert_false(python_position(v11, 0x1000, 0x1000 + v11->code_bytes + 5, &position));
  assert_false(python_position(v11, 0x1000, 0, &position));
  assert_true(python_position(v9, 0x1000, 0xffffffff, &position));
  assert_int_equal(position, PYTHON_NOT_BEGUN);
  assert_true(python_position(python_layout(0x030a00f0), 0x1000, 21, &position));
  assert_int_equal(position, 42);
}

static void other_versions_are_unknown(void **state) {
  (void)state;
  assert_null(python_layout(0x030700f0));
  assert_null(python_layout(0x031000f0));
  assert_null(python_layout(0x020700f0));
  assert_null(python_layout(0x040b00f0));
  assert_int_equal(python_layout(0x030d00f0)->minor, 13);
  assert_int_equal(python_layout(0x030f02f0)->minor, 15);
}

/* ---- memory ------------------------------------------------------------------------------------
 */

#define BASE  UINT64_C(0x10000)
#define BYTES 0x2000u

static uint8_t bytes[BYTES];

static bool read_bytes(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  if (address < BASE || address - BASE > BYTES || size > BYTES - (address - BASE)) return false;
  memcpy(out, bytes + (address - BASE), size);
  return true;
}

static memory_t memory = {read_bytes};

static void put(uint64_t address, uint64_t value) { memcpy(bytes + (address - BASE), &value, 8); }

static void text(const python_layout_t *l, uint32_t kind, bool ascii, const void *data,
                 uint64_t count) {
  put(BASE + PYTHON_TEXT_LENGTH, count);
  put(BASE + PYTHON_TEXT_STATE, kind << 2 | 1u << 5 | (uint32_t)ascii << 6);
  memcpy(bytes + (ascii ? l->text_ascii : l->text_other), data, count * kind);
}

static void reads_strings(void **state) {
  (void)state;
  const python_layout_t *l = python_layout(0x030b00f0);
  char out[64];
  text(l, 1, true, "hello", 5);
  assert_int_equal(python_text(l, &memory, BASE, out, sizeof out), 5);
  assert_string_equal(out, "hello");
  assert_int_equal(python_text(l, &memory, BASE, out, 4), 3);
  assert_string_equal(out, "hel");
  text(l, 1, false, "\xe9t\xe9", 3);
  python_text(l, &memory, BASE, out, sizeof out);
  assert_string_equal(out, "été");
  assert_int_equal(python_text(l, &memory, BASE, out, 3), 2);
  text(l, 2, false, "\x0d\x54\x0f\xd8", 2); /* the second is a lone surrogate */
  python_text(l, &memory, BASE, out, sizeof out);
  assert_string_equal(out, "名\xef\xbf\xbd");
  text(l, 4, false, "\x00\xf6\x01\x00", 1);
  python_text(l, &memory, BASE, out, sizeof out);
  assert_string_equal(out, "\xf0\x9f\x98\x80");
  put(BASE + PYTHON_TEXT_LENGTH, UINT32_MAX);
  assert_int_equal(python_text(l, &memory, BASE, out, sizeof out), 63);
  put(BASE + PYTHON_TEXT_STATE, 3 << 2 | 1u << 5);
  assert_int_equal(python_text(l, &memory, BASE, out, sizeof out), 0);
  assert_int_equal(python_text(l, &memory, BASE + 1, out, sizeof out), 0);
  assert_int_equal(python_text(l, &memory, 0, out, sizeof out), 0);
}

/* ---- chains ------------------------------------------------------------------------------------
 */

enum { STATE = BASE, CFRAMES = BASE + 0x400, FRAMES = BASE + 0x1000, GAP = 0x100 };

static void put_frame(const python_layout_t *l, int i, uint64_t code, uint64_t back) {
  put(FRAMES + (uint64_t)i * GAP + l->frame_code, code);
  put(FRAMES + (uint64_t)i * GAP + l->frame_back, back);
}

static void expect_frame(python_chain_t *c, uint64_t code) {
  assert_int_equal(python_chain_next(c), PYTHON_FRAME);
  assert_int_equal(c->code, code);
}

static void expect_call(python_chain_t *c, uint64_t anchor) {
  assert_int_equal(python_chain_next(c), PYTHON_CALL);
  assert_int_equal(c->anchor, anchor);
}

/* 3.11: frames 0 and 1 in one call of the evaluator, frame 2 in another. */
static void put_3_11(const python_layout_t *l) {
  memset(bytes, 0, sizeof bytes);
  for (int i = 0; i < 3; i++)
    put_frame(l, i, 0x100 + (uint64_t)i, i < 2 ? FRAMES + (uint64_t)(i + 1) * GAP : 0);
  bytes[FRAMES - BASE + 1 * GAP + l->frame_is_entry] = 1;
  bytes[FRAMES - BASE + 2 * GAP + l->frame_is_entry] = 1;
  put(STATE + l->state_cframe, CFRAMES);
  put(CFRAMES + l->cframe_current, FRAMES);
  put(CFRAMES + l->cframe_previous, CFRAMES + 64);
  put(CFRAMES + 64 + l->cframe_current, FRAMES + 2 * GAP);
  put(CFRAMES + 64 + l->cframe_previous, STATE + l->state_root_cframe);
}

static void walks_3_11(void **state) {
  (void)state;
  const python_layout_t *l = python_layout(0x030b00f0);
  python_chain_t c;
  put_3_11(l);
  assert_true(python_chain_start(&c, l, &memory, STATE));
  expect_frame(&c, 0x100);
  expect_frame(&c, 0x101);
  expect_call(&c, CFRAMES);
  expect_frame(&c, 0x102);
  expect_call(&c, CFRAMES + 64);
  assert_int_equal(python_chain_next(&c), PYTHON_END);
}

/* The evaluator has linked its CFrame and not set it yet. */
static void notices_contradictions(void **state) {
  (void)state;
  const python_layout_t *l = python_layout(0x030b00f0);
  python_chain_t c;
  put_3_11(l);
  put(CFRAMES + 64 + l->cframe_current, FRAMES + 1 * GAP);
  assert_true(python_chain_start(&c, l, &memory, STATE));
  expect_frame(&c, 0x100);
  expect_frame(&c, 0x101);
  assert_int_equal(python_chain_next(&c), PYTHON_DAMAGED);
  put_3_11(l);
  put_frame(l, 1, 0x101, FRAMES); /* a cycle */
  bytes[FRAMES - BASE + 1 * GAP + l->frame_is_entry] = 0;
  assert_true(python_chain_start(&c, l, &memory, STATE));
  python_step_t step;
  while ((step = python_chain_next(&c)) == PYTHON_FRAME) {
  }
  assert_int_equal(step, PYTHON_DAMAGED);
  put_3_11(l);
  put_frame(l, 0, 0x100, 0xdead0000);
  assert_true(python_chain_start(&c, l, &memory, STATE));
  expect_frame(&c, 0x100);
  assert_int_equal(python_chain_next(&c), PYTHON_DAMAGED);
}

/* From 3.12 on: the evaluator's own frames, 1 and 3, are the anchors. 3.14 tags code objects,
 * and 3.15 has a last frame, 4, that is no anchor. */
static void walks_later_versions(void **state) {
  (void)state;
  for (uint32_t version = 0x030c00f0; version <= 0x030f00f0; version += 0x10000) {
    const python_layout_t *l = python_layout(version);
    python_chain_t c;
    memset(bytes, 0, sizeof bytes);
    int last = l->minor >= 15 ? 4 : 3;
    for (int i = 0; i <= last; i++)
      put_frame(l, i, (0x100 + (uint64_t)i) | (l->minor >= 14),
                i < last ? FRAMES + (uint64_t)(i + 1) * GAP : 0);
    bytes[FRAMES - BASE + 1 * GAP + l->frame_owner] = 3;
    bytes[FRAMES - BASE + 3 * GAP + l->frame_owner] = 4;
    if (last == 4) bytes[FRAMES - BASE + 4 * GAP + l->frame_owner] = 3;
    if (l->state_cframe != PYTHON_NO_FIELD) {
      put(STATE + l->state_cframe, CFRAMES);
      put(CFRAMES + l->cframe_current, FRAMES);
    } else {
      put(STATE + l->state_frame, FRAMES);
    }
    assert_true(python_chain_start(&c, l, &memory, STATE));
    expect_frame(&c, 0x100);
    expect_call(&c, FRAMES + 1 * GAP);
    expect_frame(&c, 0x102);
    expect_call(&c, FRAMES + 3 * GAP);
    assert_int_equal(python_chain_next(&c), PYTHON_END);
  }
}

/* 3.10: the innermost call may have its anchor and no frame yet, or its frame and no anchor. */
static void aligns_3_10(void **state) {
  (void)state;
  const python_layout_t *l = python_layout(0x030a00f0);
  for (int begins = 0; begins < 2; begins++) {
    python_chain_t c;
    memset(bytes, 0, sizeof bytes);
    put_frame(l, 0, 0x100, FRAMES + GAP);
    put_frame(l, 1, 0x101, 0);
    put(STATE + l->state_frame, begins ? FRAMES + GAP : FRAMES);
    put(STATE + l->state_cframe, begins ? CFRAMES : CFRAMES + 64);
    put(CFRAMES + l->cframe_previous, CFRAMES + 64);
    put(CFRAMES + 64 + l->cframe_previous, STATE + l->state_root_cframe);
    assert_true(python_chain_start(&c, l, &memory, STATE));
    expect_frame(&c, 0x101);
    expect_call(&c, CFRAMES + 64);
    assert_int_equal(python_chain_next(&c), PYTHON_END);
  }
}

/* ---- the global lock
 * -----------------------------------------------------------------------------
 */

/* Holder, state, changes of holder; then the first word of the mutex. */
static void put_lock(uint64_t holder, uint32_t locked, uint64_t switches, uint64_t mutex) {
  put(BASE + 8, holder);
  put(BASE + 16, locked);
  put(BASE + 24, switches);
  put(BASE + 80, mutex);
}

/* Another thread takes the lock while it is read for the first time. */
static bool read_twice(memory_t *self, uint64_t address, void *out, size_t size) {
  static int reads;
  bool good = read_bytes(self, address, out, size);
  if (++reads == 1) put_lock(0x2000, 1, 8, 0);
  return good;
}

static void reads_the_global_lock(void **state) {
  (void)state;
  memory_t changing = {read_twice};
  python_runtime_t runtime = {.layout = python_layout(0x030c00f0)};
  python_gil_t gil;
  put_lock(0x1000, 1, 7, 0);
  assert_true(python_gil_read(&runtime, &memory, BASE, &gil));
  assert_int_equal(gil.holder, 0x1000);
  assert_int_equal(gil.switches, 7);
  assert_true(python_gil_read(&runtime, &changing, BASE, &gil));
  assert_int_equal(gil.holder, 0x2000);
  assert_int_equal(gil.switches, 8);
  put_lock(0x1000, 0, 7, 0);
  assert_true(python_gil_read(&runtime, &memory, BASE, &gil));
  assert_int_equal(gil.holder, 0);
  put_lock(0x1000, UINT32_MAX, 7, 0); /* the interpreter has ended */
  assert_true(python_gil_read(&runtime, &memory, BASE, &gil));
  assert_int_equal(gil.holder, 0);
  put_lock(0x1000, 1, 7, 1); /* a thread may be about to note that it is the holder */
  assert_false(python_gil_read(&runtime, &memory, BASE, &gil));
  assert_false(python_gil_read(&runtime, &memory, BASE + BYTES, &gil));
  runtime = (python_runtime_t){.layout = python_layout(0x030b00f0), .address = BASE + 0x400};
  assert_false(python_gil_read(&runtime, &memory, BASE, &gil));
  put(BASE + 0x400 + 576, 0x3000); /* the holder notes itself: the mutex does not matter */
  assert_true(python_gil_read(&runtime, &memory, BASE, &gil));
  assert_int_equal(gil.holder, 0x3000);
  assert_int_equal(gil.switches, 7);
  assert_false(python_gil_is_at(BASE, BASE + 31));
  assert_true(python_gil_is_at(BASE, BASE + 32));
  assert_true(python_gil_is_at(BASE, BASE + 207));
  assert_false(python_gil_is_at(BASE, BASE + 208));
  assert_false(python_gil_is_at(BASE, BASE - 1));
}

static void finds_the_global_lock(void **state) {
  (void)state;
  python_runtime_t runtime = {.layout = python_layout(0x030b00f0), .address = 0x500000};
  assert_int_equal(python_gil_of(&runtime, &memory, BASE), 0x500000 + 360);
  runtime.layout = python_layout(0x030c00f0);
  put(BASE + 16, BASE + 0x400);
  put(BASE + 0x400 + 384, BASE + 0x800);
  assert_int_equal(python_gil_of(&runtime, &memory, BASE), BASE + 0x800);
  put(BASE + 16, 0);
  assert_int_equal(python_gil_of(&runtime, &memory, BASE), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_lines_to_3_9),
      cmocka_unit_test(finds_lines_of_3_10),
      cmocka_unit_test(finds_lines_from_3_11),
      cmocka_unit_test(pcs_hold_code_and_position),
      cmocka_unit_test(positions_are_checked),
      cmocka_unit_test(other_versions_are_unknown),
      cmocka_unit_test(reads_strings),
      cmocka_unit_test(walks_3_11),
      cmocka_unit_test(notices_contradictions),
      cmocka_unit_test(walks_later_versions),
      cmocka_unit_test(aligns_3_10),
      cmocka_unit_test(reads_the_global_lock),
      cmocka_unit_test(finds_the_global_lock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
