/* SPDX-License-Identifier: MIT
 *
 * Names of generated code, as V8 and HotSpot write them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "reader/generated_name.h"
#include "symbol/generated.h"

/* "function|file|line" */
static const char *parts(const char *text) {
  static char out[256];
  generated_name_t name;
  generated_name(text, &name);
  snprintf(out, sizeof out, "%.*s|%.*s|%u", (int)name.function_size, name.function,
           (int)name.file_size, name.file_size ? name.file : "", name.line);
  return out;
}

static void javascript_has_its_place(void **state) {
  (void)state;
  assert_string_equal(parts("JS:*fib /srv/app.js:3:14"), "fib|/srv/app.js|3");
  assert_string_equal(parts("JS:^fib file:///srv/a b.mjs:3:14"), "fib|/srv/a b.mjs|3");
  assert_string_equal(parts("LazyCompile:~get size /srv/app.js:30:1"), "get size|/srv/app.js|30");
  assert_string_equal(parts("LazyCompile:*fib /srv/a b.js:2"), "fib|/srv/a b.js|2");
  assert_string_equal(parts("Function:~ /srv/app.js:1"), "(anonymous)|/srv/app.js|1");
  assert_string_equal(parts("Eval:~ /srv/app.js:1"), "(script)|/srv/app.js|1");
  assert_string_equal(parts("JS:~ /srv/app.js:1:1"), "(anonymous)|/srv/app.js|1");
  assert_string_equal(parts("Script:~ node:internal/main:1:1"), "(script)|node:internal/main|1");
  assert_string_equal(parts("JS:'f evalmachine.<anonymous>:7:2"), "f|evalmachine.<anonymous>|7");
}

static void methods_lose_their_type(void **state) {
  (void)state;
  assert_string_equal(parts("int Fib.fib(int)"), "Fib.fib(int)||0");
  assert_string_equal(parts("void a.B.<init>()"), "a.B.<init>()||0");
  assert_string_equal(parts("java.lang.String a.B.c(int, long)"), "a.B.c(int, long)||0");
}

static void other_names_stay(void **state) {
  static const char *const names[] = {"Builtin:ArrayMap",
                                      "StubRoutines (1)",
                                      "Interpreter",
                                      "",
                                      "JS:",
                                      "JS:*f",
                                      "JS:*f :1",
                                      "JS:*f x:1",
                                      "Script:",
                                      "Function:*f",
                                      "Function:*f :",
                                      "Eval:1",
                                      "f (a.b)",
                                      "ns::f<int>(a.b)",
                                      "JS:*f:1:2",
                                      ":1:2",
                                      "JS:1:2"};
  char expected[64];
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(expected, sizeof expected, "%s||0", names[i]);
    assert_string_equal(parts(names[i]), expected);
  }
}

static void own_functions_are_the_programs(void **state) {
  (void)state;
  assert_true(generated_is_own("fib", "/srv/app.js"));
  assert_true(generated_is_own("Fib.fib(int)", NULL));
  assert_false(generated_is_own("Builtin:ArrayMap", NULL));
  assert_false(generated_is_own("emit", "node:events"));
  assert_false(generated_is_own("parse", "/srv/node_modules/x/index.js"));
  assert_false(generated_is_own("java.lang.String.hashCode()", NULL));
  assert_false(generated_is_own("Interpreter", NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(javascript_has_its_place),
      cmocka_unit_test(methods_lose_their_type),
      cmocka_unit_test(other_names_stay),
      cmocka_unit_test(own_functions_are_the_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
