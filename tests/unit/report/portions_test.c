/* SPDX-License-Identifier: MIT
 *
 * Portions: their sum is the amount, and each is wrong by less than 2.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/portions.h"

static void portions_add_up(void **state) {
  (void)state;
  static const uint64_t amounts[] = {0, 1, 83, 1480000084, UINT64_C(1) << 51};
  srand(1);
  for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
    for (unsigned n = 1; n < 200; n++) {
      uint64_t counts[200] = {0}, sum = 0;
      portions_t p = {.amount = amounts[i]};
      for (unsigned k = 0; k < n; k++)
        p.counts += counts[k] = (uint64_t)rand() % 1000 + (k == 0);
      for (unsigned k = 0; k < n; k++) {
        uint64_t portion = portions_next(&p, counts[k]);
        double exact = (double)p.amount / (double)p.counts * (double)counts[k];
        assert_true((double)portion < exact + 2 && (double)portion > exact - 2);
        sum += portion;
      }
      assert_int_equal(sum, p.amount);
    }
}

static void nothing_has_no_portion(void **state) {
  (void)state;
  portions_t p = {.amount = 5};
  assert_int_equal(portions_next(&p, 3), 0);
  assert_int_equal(portions_of_one(&p), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(portions_add_up),
                                     cmocka_unit_test(nothing_has_no_portion)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
