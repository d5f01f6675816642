/* SPDX-License-Identifier: MIT
 *
 * Tests the line that ends a shortened list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "report/report.h"

static void expect(const report_t *report, size_t count, const char *plural, const char *line) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  report_more(report, count, plural, out);
  fclose(out);
  assert_string_equal(text, line);
  free(text);
}

static void more_than_are_shown(void **state) {
  (void)state;
  const report_t no_option = {0}, cut = {.has_all = true}, all = {.has_all = true, .all = true};
  expect(&no_option, 2, "functions", "  … and 2 more functions\n");
  expect(&no_option, 1, "functions", "  … and 1 more function\n");
  expect(&no_option, 1, "libraries", "  … and 1 more library\n");
  expect(&no_option, 7, "", "  … and 7 more\n");
  expect(&no_option, 1, "", "  … and 1 more\n");
  expect(&cut, 2, "functions", "  … and 2 more functions (--all)\n");
  expect(&all, 2, "functions", "  … and 2 more functions\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(more_than_are_shown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
