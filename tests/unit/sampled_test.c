/* SPDX-License-Identifier: MIT
 *
 * The logarithm that sampling is drawn with, against libm's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "sensor/sampled.h"

static void the_logarithm_is_close(void **unused) {
  (void)unused;
  double worst = 0;
  for (double x = 1e-16; x <= 1.0; x *= 1.0001) {
    double off = fabs(sampled_log(x) - log(x)) / fmax(1.0, fabs(log(x)));
    if (off > worst) worst = off;
  }
  print_message("largest error: %g\n", worst);
  assert_true(worst < 1e-5);
}

static void a_table_knows_what_it_was_told(void **unused) {
  (void)unused;
  assert_false(sampled_forget(0x1000));
  sampled_restore(0x1000);
  sampled_restore(0x2000);
  assert_true(sampled_forget(0x1000));
  assert_false(sampled_forget(0x1000));
  assert_true(sampled_forget(0x2000));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_logarithm_is_close),
                                     cmocka_unit_test(a_table_knows_what_it_was_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
