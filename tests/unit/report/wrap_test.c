/* SPDX-License-Identifier: MIT
 *
 * Text is broken between words, never shortened without a sign.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/wrap.h"

static int left;

static void check(const char *text, wrap_t wrap, const char *expected) {
  char *printed;
  size_t size;
  FILE *out = open_memstream(&printed, &size);
  assert_non_null(out);
  left = wrap_print(out, text, wrap);
  fclose(out);
  assert_string_equal(printed, expected);
  free(printed);
}

static void breaks_between_words(void **unused) {
  (void)unused;
  check("one two three", (wrap_t){0, 2, 7, WRAP_ALL_LINES}, "one two\n  three\n");
  check("one two three", (wrap_t){1, 2, 7, WRAP_ALL_LINES}, "one\n  two\n  three\n");
  check("unbreakable word", (wrap_t){0, 0, 5, WRAP_ALL_LINES}, "unbreakable\nword\n");
  check("one  two", (wrap_t){0, 0, 0, WRAP_ALL_LINES}, "one  two\n");
  check("one  two", (wrap_t){0, 0, 7, WRAP_ALL_LINES}, "one\ntwo\n");
  check("", (wrap_t){0, 0, 5, WRAP_ALL_LINES}, "\n");
}

static void keeps_line_feeds_and_what_is_indented(void **unused) {
  (void)unused;
  check("  one two\nthree\n\n   four", (wrap_t){0, 1, 8, WRAP_ALL_LINES},
        "  one\n two\n three\n \n    four\n");
}

static void counts_code_points(void **unused) {
  (void)unused;
  assert_int_equal(wrap_columns("5 µs …", strlen("5 µs …")), 6);
  check("µµ µµ", (wrap_t){0, 0, 5, WRAP_ALL_LINES}, "µµ µµ\n");
  check("µµ µµ", (wrap_t){0, 0, 4, WRAP_ALL_LINES}, "µµ\nµµ\n");
}

static void stops_after_the_last_line(void **unused) {
  (void)unused;
  check("a b c d", (wrap_t){0, 0, 1, 2}, "a\nb …\n");
  assert_int_equal(left, 0);
  check("a b", (wrap_t){0, 0, 1, 2}, "a\nb\n");
  assert_int_equal(left, 0);
  check("a b", (wrap_t){0, 0, 1, 3}, "a\nb\n");
  assert_int_equal(left, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(breaks_between_words),
      cmocka_unit_test(keeps_line_feeds_and_what_is_indented),
      cmocka_unit_test(counts_code_points),
      cmocka_unit_test(stops_after_the_last_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
