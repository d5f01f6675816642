/* SPDX-License-Identifier: MIT
 *
 * Records of a crash: of older versions, without registers; truncated; with impossible counts.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "analysis/crash.h"
#include "base/varint.h"

typedef struct record {
  uint8_t bytes[1024];
  uint32_t size;
} record_t;

static void put(record_t *r, uint64_t value) { r->size += varint_put(r->bytes + r->size, value); }

static void put_text(record_t *r, const char *text) {
  put(r, strlen(text));
  memcpy(r->bytes + r->size, text, strlen(text));
  r->size += (uint32_t)strlen(text);
}

static record_t old_record(void) {
  record_t r = {.size = 0};
  const uint64_t fields[] = {SIGSEGV, 1, 0x18, 77, 5};
  for (int i = 0; i < 5; i++)
    put(&r, fields[i]);
  return r;
}

static record_t new_record(void) {
  record_t r = old_record();
  put(&r, 17);
  for (uint64_t i = 0; i < 17; i++)
    put(&r, 1000 + i);
  const uint64_t fields[] = {CRASH_ACCESS_WRITE, 0x7000, 0x9000, 0, 0, 0};
  for (int i = 0; i < 6; i++)
    put(&r, fields[i]);
  put_text(&r, "message");
  put_text(&r, "");
  put_text(&r, "");
  return r;
}

static crash_t read_record(const record_t *r, uint32_t size) {
  crash_t crash = {0};
  const record_event_t e = {
      .kind = EVENT_EXTENDED, .subtype = EXTENDED_CRASH, .body = r->bytes, .body_size = size};
  assert_true(crash_add(&crash, &e));
  return crash;
}

static void old_records_have_no_registers(void **unused) {
  (void)unused;
  record_t r = old_record();
  crash_t crash = read_record(&r, r.size);
  assert_int_equal(crash.number, SIGSEGV);
  assert_int_equal(crash.address, 0x18);
  assert_int_equal(crash.crashed.tid, 77);
  assert_int_equal(crash.register_count, 0);
  assert_string_equal(crash.message, "");
  assert_string_equal(crash_signal_text(&crash), "access to unmapped memory");
  crash_free(&crash);
}

static void new_records_have_all(void **unused) {
  (void)unused;
  record_t r = new_record();
  put(&r, 99); /* of a later version */
  crash_t crash = read_record(&r, r.size);
  assert_int_equal(crash.register_count, 17);
  assert_int_equal(crash.registers[16], 1016);
  assert_int_equal(crash.stack_low, 0x7000);
  assert_string_equal(crash.message, "message");
  assert_string_equal(crash_signal_text(&crash), "write to unmapped memory");
  assert_string_equal(crash_register_name(62, 5), "rdi");
  assert_string_equal(crash_register_name(62, 17), "");
  assert_string_equal(crash_register_name(183, 31), "sp");
  crash_free(&crash);
}

static void every_truncated_record_is_read(void **unused) {
  (void)unused;
  record_t r = new_record();
  for (uint32_t size = 0; size < r.size; size++) {
    crash_t crash = read_record(&r, size);
    assert_true(crash.register_count == 0 || crash.register_count == 17);
    crash_free(&crash);
  }
}

static void too_many_registers_are_none(void **unused) {
  (void)unused;
  for (uint64_t count = CRASH_REGISTERS + 1; count; count = count == UINT64_MAX ? 0 : UINT64_MAX) {
    record_t r = old_record();
    put(&r, count);
    for (int i = 0; i < 60; i++)
      put(&r, 1);
    crash_t crash = read_record(&r, r.size);
    assert_int_equal(crash.register_count, 0);
    crash_free(&crash);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(old_records_have_no_registers),
                                     cmocka_unit_test(new_records_have_all),
                                     cmocka_unit_test(every_truncated_record_is_read),
                                     cmocka_unit_test(too_many_registers_are_none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
