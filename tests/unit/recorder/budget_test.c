/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "recorder/monitor/budget.h"

static void test_one_step_if_half_as_much_is_near_the_budget(void **state) {
  (void)state;
  assert_int_equal(budget_slower(0, 0.011, 0.01), 1);
  assert_int_equal(budget_slower(0, 0.039, 0.01), 1);
  assert_int_equal(budget_slower(3, 0.011, 0.01), 4);
}

static void test_several_steps_if_it_is_far_beyond(void **state) {
  (void)state;
  assert_int_equal(budget_slower(0, 0.04, 0.01), 2);
  assert_int_equal(budget_slower(0, 0.29, 0.01), 4);
  assert_int_equal(budget_slower(2, 0.08, 0.01), 5);
}

static void test_the_last_step_is_one_64th(void **state) {
  (void)state;
  assert_int_equal(budget_slower(0, 100, 0.01), 6);
  assert_int_equal(budget_slower(5, 1, 0.01), 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_step_if_half_as_much_is_near_the_budget),
      cmocka_unit_test(test_several_steps_if_it_is_far_beyond),
      cmocka_unit_test(test_the_last_step_is_one_64th),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
