/* SPDX-License-Identifier: MIT
 *
 * Nodes by id: of two nodes with one id the later one counts, however far the id is from the
 * others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "analysis/samples.h"
#include "base/ids.h"
#include "reader/internal.h"

/* An id that does not fit among few items, and the count of items among which it fits. */
#define FAR      5000000u
#define FAR_FITS (FAR / IDS_PER_ITEM + 1)

static void the_later_node_counts(void **state) {
  (void)state;
  reader_t *r = reader_new();
  assert_non_null(r);
  assert_int_equal(reader_set_node(r, 7, 1, 100), 7);
  assert_int_equal(reader_set_node(r, 7, 1, 200), 7);
  assert_int_equal(reader_node(r, 7)->frame, 200);
  assert_int_equal(reader_set_node(r, FAR, 1, 100), FAR);
  assert_int_equal(reader_set_node(r, FAR, 1, 200), FAR);
  assert_int_equal(reader_node(r, FAR)->frame, 200);
  assert_null(reader_node(r, FAR + 1));
  for (uint32_t id = 10; id < 10 + FAR_FITS; id++)
    assert_int_equal(reader_set_node(r, id, id - 1, 3), id);
  assert_int_equal(reader_set_node(r, FAR + 1, 1, 100), FAR + 1);
  assert_int_equal(reader_node(r, FAR + 1)->frame, 100);
  assert_int_equal(reader_node(r, FAR)->frame, 200); /* it does not move */
  assert_int_equal(reader_set_node(r, FAR, 1, 300), FAR);
  assert_int_equal(reader_node(r, FAR)->frame, 300);
  assert_int_equal(reader_node(r, 7)->frame, 200);
  assert_int_equal(reader_node(r, 10)->parent, 9);
  assert_null(reader_node(r, UINT32_MAX));
  reader_close(r);
}

static void a_stack_is_counted_once(void **state) {
  (void)state;
  samples_t s = {0};
  record_event_t e = {.kind = EVENT_SAMPLE};
  for (int round = 0; round < 2; round++) {
    e.stack = FAR;
    assert_true(samples_add(&s, &e));
    for (e.stack = 1; e.stack <= FAR_FITS; e.stack++)
      assert_true(samples_add(&s, &e));
  }
  assert_int_equal(s.stack_count, FAR_FITS + 1);
  assert_int_equal(s.ticks, 2 * (FAR_FITS + 1));
  for (size_t i = 0; i < s.stack_count; i++)
    assert_int_equal(s.stacks[i].ticks, 2);
  samples_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_later_node_counts),
                                     cmocka_unit_test(a_stack_is_counted_once)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
