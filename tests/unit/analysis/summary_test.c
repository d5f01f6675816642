/* SPDX-License-Identifier: MIT
 *
 * Estimates of how many stacks fit in a summary, for sizes that grow as those of real recordings:
 * by less for each further stack.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "analysis/summary/summary.h"

enum { LIMIT = 990000 };

/* The fixed part, and the growth: 1 is proportional. */
typedef struct curve {
  double base, of_one, power;
} curve_t;

static size_t bytes_of(const curve_t *c, size_t stacks) {
  return (size_t)(c->base + c->of_one * pow((double)stacks, c->power));
}

static size_t most_that_fit(const curve_t *c) {
  return (size_t)pow((LIMIT - c->base) / c->of_one, 1 / c->power);
}

static void the_second_estimate_fits(void **unused) {
  (void)unused;
  static const double bases[] = {0, 2000, 20000}, powers[] = {0.7, 0.8, 0.9, 1};
  static const size_t starts[] = {20, 1000, 20000, 65536};
  int tried = 0;
  for (size_t i = 0; i < 3 * 4 * 4 * 12; i++) {
    size_t step = i / 48;
    double excess = 1.001 * pow(1.3, (double)step); /* up to 18 times as large as allowed */
    size_t start = starts[i % 4];
    curve_t c = {bases[i / 4 % 3], 1, powers[i / 12 % 4]};
    c.of_one = (LIMIT * excess - c.base) / pow((double)start, c.power);
    summary_size_t before = {0}, last = {start, bytes_of(&c, start)};
    int builds = 1;
    for (; last.bytes > LIMIT && last.stacks > 16; builds++, tried++) {
      size_t next = summary_estimate(last, before, LIMIT);
      assert_true(next < last.stacks || next == 16);
      before = last;
      last = (summary_size_t){next, bytes_of(&c, next)};
    }
    assert_true(builds <= 3);
    assert_true(last.stacks == 16 || last.stacks >= most_that_fit(&c) * 9 / 10);
  }
  assert_true(tried > 600);
}

static void damaged_sizes_give_fewer_stacks(void **unused) {
  (void)unused;
  assert_true(summary_estimate((summary_size_t){100, 2000000}, (summary_size_t){200, 1000}, LIMIT) <
              100);
  assert_int_equal(
      summary_estimate((summary_size_t){17, UINT32_MAX}, (summary_size_t){18, UINT32_MAX}, LIMIT),
      16);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_second_estimate_fits),
                                     cmocka_unit_test(damaged_sizes_give_fewer_stacks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
