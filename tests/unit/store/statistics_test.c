/* SPDX-License-Identifier: MIT
 *
 * Welch's t-test against published values and against simulation of equal builds.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/statistics.h"

static void near(double value, double expected, double tolerance) {
  assert_true(fabs(value - expected) <= tolerance);
}

/* The critical values that every table of Student's distribution has. */
static void students_distribution(void **state) {
  (void)state;
  near(statistics_student_p(12.706, 1), 0.05, 1e-5);
  near(statistics_student_p(2.228, 10), 0.05, 1e-4);
  near(statistics_student_p(3.169, 10), 0.01, 1e-4);
  near(statistics_student_p(1.960, 1e7), 0.05, 1e-4);
  near(statistics_student_p(0, 5), 1, 1e-12);
}

/* Two samples of 20 and 10 values: t = 15 / sqrt(100/20 + 25/10) = 5.477, 27.98 degrees of freedom.
 */
static void welch(void **state) {
  (void)state;
  mean_change_t c =
      statistics_compare((sample_of_values_t){20, 50, 10}, (sample_of_values_t){10, 65, 5}, 0.05);
  near(c.change, 15, 1e-12);
  near(c.p, 7.56e-6, 2e-7);
  near(c.detectable, 2.7386 * (2.0484 + 0.8546), 0.01);
}

static void values_without_deviation_are_certain(void **state) {
  (void)state;
  const sample_of_values_t five = {3, 5, 0}, six = {3, 6, 0};
  assert_true(statistics_compare(five, five, 0.05).p == 1);
  assert_true(statistics_compare(five, six, 0.05).p == 0);
  assert_true(statistics_compare(five, six, 0.05).detectable == 0);
}

static double random_value(uint64_t *seed) {
  double sum = 0;
  for (int i = 0; i < 12; i++) {
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    sum += (double)(*seed >> 11) / 9007199254740992.0;
  }
  return sum - 6; /* nearly normal, deviation 1 */
}

static sample_of_values_t draw(uint64_t *seed, int n, double mean) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; i++) {
    double x = mean + random_value(seed);
    sum += x;
    squares += x * x;
  }
  return (sample_of_values_t){n, sum / n, sqrt((squares - sum * sum / n) / (n - 1))};
}

/* Of equal samples 5 % differ "significantly"; of samples that differ by `detectable` 80 % do. */
static void the_rates_of_errors_are_as_promised(void **state) {
  (void)state;
  enum { ROUNDS = 4000 };
  uint64_t seed = 7;
  int false_alarms = 0, found = 0;
  double detectable =
      statistics_compare((sample_of_values_t){8, 0, 1}, (sample_of_values_t){12, 0, 1}, 0.05)
          .detectable;
  for (int i = 0; i < ROUNDS; i++) {
    sample_of_values_t a = draw(&seed, 8, 0);
    false_alarms += statistics_compare(a, draw(&seed, 12, 0), 0.05).p < 0.05;
    found += statistics_compare(a, draw(&seed, 12, detectable), 0.05).p < 0.05;
  }
  near((double)false_alarms / ROUNDS, 0.05, 0.015);
  near((double)found / ROUNDS, 0.8, 0.04);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(students_distribution),
      cmocka_unit_test(welch),
      cmocka_unit_test(values_without_deviation_are_certain),
      cmocka_unit_test(the_rates_of_errors_are_as_promised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
