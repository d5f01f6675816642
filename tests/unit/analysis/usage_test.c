/* SPDX-License-Identifier: MIT
 *
 * Growth of a resource: series whose slope is known, with jumps and pauses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "analysis/usage.h"

#define SECOND UINT64_C(1000000000)

/* A series of one value a second, for 100 s. */
static usage_growth_t growth_of(uint64_t (*value)(uint64_t second)) {
  static usage_point_t points[101];
  usage_t usage = {.is_recorded = true, .to_ns = 100 * SECOND};
  usage_series_t *s = &usage.series[USAGE_RSS];
  for (uint64_t i = 0; i <= 100; i++)
    points[i] = (usage_point_t){i * SECOND, value(i)};
  *s = (usage_series_t){.is_known = true, .first = value(0), .points = points, .count = 101};
  return usage_growth(&usage, USAGE_RSS, 0, 100 * SECOND);
}

static uint64_t steady(uint64_t second) { return 1000 + 70 * second; }
static uint64_t falling(uint64_t second) { return 100000 - 70 * second; }
static uint64_t constant(uint64_t second) { return 5000 + 0 * second; }
static uint64_t one_jump(uint64_t second) { return second < 90 ? 5000 : 5000000; }
static uint64_t saw(uint64_t second) { return 5000 + second % 5 * 1000; }
static uint64_t steady_with_peak(uint64_t second) {
  return steady(second) + (second == 50 ? 1000000 : 0);
}

static void slopes_are_the_true_ones(void **unused) {
  (void)unused;
  assert_float_equal(growth_of(steady).per_s, 70, 1);
  assert_true(growth_of(steady).low_per_s > 60);
  assert_float_equal(growth_of(falling).per_s, -70, 1);
  assert_float_equal(growth_of(steady_with_peak).per_s, 70, 2);
  assert_true(growth_of(constant).per_s == 0 && growth_of(constant).high_per_s == 0);
}

static void a_jump_and_a_saw_are_no_growth(void **unused) {
  (void)unused;
  assert_true(growth_of(one_jump).per_s == 0 && growth_of(one_jump).low_per_s == 0);
  usage_growth_t g = growth_of(saw);
  assert_true(g.low_per_s < 0 && g.high_per_s > 0);
}

static void an_unknown_value_does_not_grow(void **unused) {
  (void)unused;
  usage_t usage = {.is_recorded = true, .to_ns = SECOND};
  assert_true(usage_growth(&usage, USAGE_SWAP, 0, SECOND).per_s == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(slopes_are_the_true_ones),
                                     cmocka_unit_test(a_jump_and_a_saw_are_no_growth),
                                     cmocka_unit_test(an_unknown_value_does_not_grow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
