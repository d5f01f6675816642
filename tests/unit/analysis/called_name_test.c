/* SPDX-License-Identifier: MIT
 *
 * The public names of the C library's functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/called_name.h"

static void test_public_names(void **unused) {
  (void)unused;
  static const char *const cases[][2] = {
      {"__GI___libc_read", "read"},
      {"_IO_fgets", "fgets"},
      {"_IO_new_fclose", "fclose"},
      {"__fopen_internal", "fopen"},
      {"__libc_recv", "recv"},
      {"___pthread_mutex_lock", "pthread_mutex_lock"},
      {"__pthread_clockjoin_ex", "pthread_join"},
      {"newlocale", "newlocale"},
      {"usleep", "usleep"},
      {"__GI_", "__GI_"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_string_equal(called_name(cases[i][0]), cases[i][1]);
}

static void test_starts(void **unused) {
  (void)unused;
  assert_true(called_is_start("start_thread"));
  assert_true(called_is_start("__clone3"));
  assert_true(called_is_start("__libc_start_main@@GLIBC_2.34"));
  assert_true(called_is_start("_start"));
  assert_false(called_is_start("clone_row"));
  assert_false(called_is_start("__libc_start_mainloop"));
}

static void test_libraries(void **unused) {
  (void)unused;
  assert_true(called_is_libc("libc.so.6"));
  assert_true(called_is_libc("libc-2.31.so"));
  assert_true(called_is_libc("libpthread-2.31.so"));
  assert_true(called_is_libc("ld-musl-x86_64.so.1"));
  assert_false(called_is_libc("libcurl.so.4"));
  assert_false(called_is_libc("libc++.so.1"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_public_names),
                                     cmocka_unit_test(test_starts),
                                     cmocka_unit_test(test_libraries)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
