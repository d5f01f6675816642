/* SPDX-License-Identifier: MIT
 *
 * Globs: what they match.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/glob.h"

static void globs_match(void **state) {
  (void)state;
  static const struct {
    const char *glob, *text;
    bool matches;
  } cases[] = {{"", "", true},
               {"", "a", false},
               {"*", "", true},
               {"*", "a/b", true},
               {"a*b*c", "aXbYc", true},
               {"a*b*c", "aXbY", false},
               {"?", "a", true},
               {"?", "", false},
               {"*TOKEN*", "MY_TOKEN", true},
               {"*.so*", "libx.so.6", true},
               {"/p/#/x", "/p/12/x", true},
               {"/p/#/x", "/p//x", false},
               {"/p/#/x", "/p/1a/x", false},
               {"#", "#", false},
               {"*#", "ab12", true},
               {"a**b", "ab", true},
               {"*a*a*a*a*b", "aaaaaaaaaaaa", false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (glob_matches(cases[i].glob, cases[i].text) != cases[i].matches)
      fail_msg("glob '%s', text '%s'", cases[i].glob, cases[i].text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(globs_match)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
