/* SPDX-License-Identifier: MIT
 *
 * Facts of equal stacks and causes are joined and inserted once; the ids of contents never change;
 * the statements agree with the tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"
#include "store/content.h"
#include "store/fact_list.h"

static char path[64];

static engine_t *fresh_engine(void) {
  char error[256];
  snprintf(path, sizeof path, "/tmp/sonde-facts-%d.sqlite", (int)getpid());
  unlink(path);
  return engine_open(path, true, error, sizeof error);
}

static void remove_engine(engine_t *e) {
  engine_close(e);
  unlink(path);
}

static int64_t number(engine_t *e, const char *sql) {
  engine_rows_t *rows = engine_query(e, sql, NULL, 0);
  assert_non_null(rows);
  assert_int_equal(engine_step(rows), 1);
  int64_t value = engine_value(rows, 0).integer;
  engine_rows_end(rows);
  return value;
}

/* Other stores and other versions compute the same ids. */
static void ids_are_part_of_the_format(void **state) {
  (void)state;
  const uint8_t build_id[] = {1, 2, 3, 4};
  const record_image_t with = {.build_id = build_id, .build_id_size = 4, .path = "/usr/lib/a.so"};
  record_image_t moved = with, without = {.path = "/usr/lib/a.so"}, elsewhere = {.path = "/b/a.so"};
  moved.path = "/other/b.so";
  moved.start = 0x1000;
  assert_true(content_image_id(&with) == content_image_id(&moved));
  assert_true(content_image_id(&without) == content_image_id(&elsewhere));
  assert_true(content_image_id(&with) != content_image_id(&without));
  assert_true(id_mix(1, 2) == UINT64_C(0x1d0b14e4db018fed));
}

static void labels_are_names_or_frames(void **state) {
  (void)state;
  content_label_t a = {0}, b = {0};
  content_label_add(&a, "work");
  content_label_add(&b, "work.constprop.0");
  assert_true(content_label_named(&a) == content_label_named(&b));
  assert_true(content_label_is_named(content_label_named(&a)));
  assert_false(content_label_is_named(content_label_unnamed(2)));
  content_label_add(&b, "caller");
  assert_true(content_label_named(&a) != content_label_named(&b));
}

static void equal_facts_are_joined(void **state) {
  (void)state;
  fact_list_t list = {0};
  engine_t *e = fresh_engine();
  if (!e) SKIP_BECAUSE("the build has no SQLite");
  const fact_t stall = {
      .measure = MEASURED_stalls, .stack = 7, .cause = 1, .count = 1, .amount = 30, .extras = {30}};
  fact_t longer = stall, other = stall;
  longer.amount = longer.extras[0] = 50;
  other.cause = 2;
  assert_true(fact_list_add(&list, &stall) && fact_list_add(&list, &other) &&
              fact_list_add(&list, &longer));
  assert_true(fact_list_insert(&list, e, 1));
  fact_list_free(&list);
  assert_int_equal(number(e, "SELECT count(*) FROM stalls"), 2);
  assert_int_equal(number(e, "SELECT ns FROM stalls WHERE cause = 1"), 80);
  assert_int_equal(number(e, "SELECT longest_ns FROM stalls WHERE cause = 1"), 50);
  engine_rollback(e);
  assert_int_equal(number(e, "SELECT count(*) FROM stalls"), 0);
  remove_engine(e);
}

/* 64-bit ids beyond the signed range, and rows in the order of the database. */
static void large_ids_are_kept(void **state) {
  (void)state;
  fact_list_t list = {0};
  engine_t *e = fresh_engine();
  if (!e) SKIP_BECAUSE("the build has no SQLite");
  const uint64_t ids[] = {UINT64_MAX, 1, UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1};
  for (size_t i = 0; i < 4; i++)
    assert_true(fact_list_add(
        &list, &(fact_t){.measure = MEASURED_leaks, .stack = ids[i], .count = 1, .amount = 5}));
  assert_true(fact_list_insert(&list, e, 1) && engine_commit(e));
  fact_list_free(&list);
  assert_int_equal(number(e, "SELECT count(*) FROM leaks WHERE stack IN (-1, 1)"), 2);
  assert_true(number(e, "SELECT min(stack) FROM leaks") == INT64_MIN);
  remove_engine(e);
}

static void a_row_is_inserted_once(void **state) {
  (void)state;
  engine_t *e = fresh_engine();
  if (!e) SKIP_BECAUSE("the build has no SQLite");
  const store_value_t row[] = {store_id(9), store_text("lab")};
  assert_int_equal(engine_insert(e, STORE_DEVICES, row), 1);
  assert_int_equal(engine_insert(e, STORE_DEVICES, row), 0);
  assert_int_equal(number(e, "SELECT count(*) FROM measures"), STORE_MEASURES);
  remove_engine(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_part_of_the_format), cmocka_unit_test(labels_are_names_or_frames),
      cmocka_unit_test(equal_facts_are_joined),     cmocka_unit_test(large_ids_are_kept),
      cmocka_unit_test(a_row_is_inserted_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
