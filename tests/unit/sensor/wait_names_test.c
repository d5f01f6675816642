/* SPDX-License-Identifier: MIT
 *
 * Which functions can block. With _FORTIFY_SOURCE a compiler calls checked forms of some of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sensor/trace/wait_names.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void functions_that_wait(void **unused) {
  static const char *const names[] = {"accept", "read", "__read", "writev", "usleep", "pread64"};
  (void)unused;
  for (size_t i = 0; i < COUNT(names); i++)
    assert_true(wait_names_has(names[i]));
}

/* All of glibc's debug/ folder that can block. */
static void checked_forms_wait_as_well(void **unused) {
  static const char *const names[] = {"__poll_chk", "__ppoll_chk", "__pread64_chk", "__pread_chk",
                                      "__read_chk", "__recv_chk",  "__recvfrom_chk"};
  (void)unused;
  for (size_t i = 0; i < COUNT(names); i++)
    assert_true(wait_names_has(names[i]));
}

static void other_functions_do_not(void **unused) {
  static const char *const names[] = {"memcpy", "__memcpy_chk", "__readlink_chk", "rea", "readx",
                                      "",       "zzz"};
  (void)unused;
  for (size_t i = 0; i < COUNT(names); i++)
    assert_false(wait_names_has(names[i]));
}

static void only_of_the_c_library(void **unused) {
  (void)unused;
  assert_true(wait_names_has_of("__read_chk", "/lib/x86_64-linux-gnu/libc.so.6"));
  assert_false(wait_names_has_of("__read_chk", "/usr/lib/libmine.so"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_that_wait),
      cmocka_unit_test(checked_forms_wait_as_well),
      cmocka_unit_test(other_functions_do_not),
      cmocka_unit_test(only_of_the_c_library),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
