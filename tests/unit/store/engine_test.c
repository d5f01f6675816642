/* SPDX-License-Identifier: MIT
 *
 * Two connections to one database: each notices what the other one changed, and not what it changed
 * itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/engine.h"

static bool is_changed(engine_t *engine) {
  bool changed = false;
  assert_true(engine_begin(engine));
  assert_true(engine_is_changed(engine, &changed));
  assert_true(engine_commit(engine));
  return changed;
}

static void add_device(engine_t *engine, uint64_t id) {
  const store_value_t row[] = {store_id(id), store_text("a device")};
  assert_int_equal(engine_insert(engine, STORE_DEVICES, row), 1);
  assert_true(engine_commit(engine));
}

static void changes_of_others_are_noticed(void **state) {
  (void)state;
  char path[] = "/tmp/sonde-engine-test-XXXXXX", error[256] = "", file[64];
  assert_non_null(mkdtemp(path));
  snprintf(file, sizeof file, "%s/store", path);
  engine_t *one = engine_open(file, true, error, sizeof error);
  engine_t *other = engine_open(file, true, error, sizeof error);
  assert_string_equal(error, "");
  (void)is_changed(one); /* since it was opened */
  (void)is_changed(other);
  assert_false(is_changed(one));
  add_device(one, 1);
  assert_false(is_changed(one));
  assert_true(is_changed(other));
  assert_false(is_changed(other));
  add_device(other, 2);
  assert_true(is_changed(one));
  assert_false(is_changed(one));
  engine_close(one);
  engine_close(other);
  assert_int_equal(unlink(file), 0);
  assert_int_equal(rmdir(path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(changes_of_others_are_noticed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
