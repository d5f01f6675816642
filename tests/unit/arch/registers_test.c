/* SPDX-License-Identifier: MIT
 *
 * Trampolines keep every register that can hold an argument or a result, for any values: random
 * calls, each checked on both sides, with nothing to call, with code before and after that leaves
 * the vector registers alone, and with such that uses them all through arch_call_keeping.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <cmocka.h>

#include "arch/keep.h"
#include "oracle.h"
#include "registers.h"
#include "dlopen_events.h"

#define CALLS 3000

static registers_t other;

static void clobber(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  (void)a, (void)b, (void)c, (void)d;
  registers_load_vectors(&other);
}

static bool before_rough(call_t *call, const uint64_t *arguments) {
  arch_call_keeping(0, 0, 0, 0, clobber);
  return before(call, arguments);
}
static void after_rough(call_t *call, call_end_t end) {
  arch_call_keeping(0, 0, 0, 0, clobber);
  after(call, end);
}
static bool refuse_rough(call_t *call, const uint64_t *arguments) {
  (void)before_rough(call, arguments);
  return false;
}

static void random_calls(const trampoline_handlers_t *calls, uint32_t flags, long expected) {
  void *thunk = hooked((void *)(uintptr_t)registers_target, calls, flags);
  uint64_t seed = seed_given();
  reset(NULL);
  registers_find_level();
  registers_random(&other, &seed);
  for (int i = 0; i < CALLS; i++) {
    int number;
    const char *bad = registers_check(thunk, &registers_seen, &registers_given, &seed, &number);
    if (bad) fail_msg("call %d: %s register %d (level %d)", i, bad, number, registers_level);
  }
  assert_int_equal(begun, expected);
}

static void nothing_to_call(void **state) {
  (void)state;
  random_calls(NULL, 0, 0);
}

static void before_and_after(void **state) {
  (void)state;
  random_calls(&counting, 0, CALLS);
  assert_int_equal(told(CALL_RETURNED), CALLS);
}

static void before_and_after_that_use_vectors(void **state) {
  static const trampoline_handlers_t rough = {.before = before_rough, .after = after_rough};
  (void)state;
  random_calls(&rough, 0, CALLS);
  assert_int_equal(told(CALL_RETURNED), CALLS);
}

static void before_alone(void **state) {
  static const trampoline_handlers_t refusing = {.before = refuse_rough, .after = after};
  (void)state;
  random_calls(&refusing, 0, CALLS);
  random_calls(&refusing, TRAMPOLINE_ENTRY_ONLY, CALLS);
  assert_int_equal(all_ended(), 0);
}

/* The check itself sees a register that is lost. */
static bool before_careless(call_t *call, const uint64_t *arguments) {
  registers_load_vectors(&other);
  return before(call, arguments);
}
static void a_lost_register_is_noticed(void **state) {
  static const trampoline_handlers_t careless = {.before = before_careless, .after = after};
  uint64_t seed = seed_given();
  int number;
  (void)state;
  registers_find_level();
  registers_random(&other, &seed);
  void *thunk = hooked((void *)(uintptr_t)registers_target, &careless, 0);
  assert_string_equal(registers_check(thunk, &registers_seen, &registers_given, &seed, &number),
                      "vector");
}

int main(void) {
  const char *why = trampoline_ready();
  if (why) {
    printf("skipped: %s\n", why);
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_call),
      cmocka_unit_test(before_and_after),
      cmocka_unit_test(before_and_after_that_use_vectors),
      cmocka_unit_test(before_alone),
      cmocka_unit_test(a_lost_register_is_noticed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
