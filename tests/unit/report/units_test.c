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

static void expect(size_t count, const char *plural, const char *line) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  report_more(count, plural, out);
  fclose(out);
  assert_string_equal(text, line);
  free(text);
}

static void more_than_are_shown(void **state) {
  (void)state;
  expect(2, "functions", "  … and 2 more functions\n");
  expect(1, "functions", "  … and 1 more function\n");
  expect(1, "libraries", "  … and 1 more library\n");
  expect(7, "", "  … and 7 more\n");
  expect(1, "", "  … and 1 more\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(more_than_are_shown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
