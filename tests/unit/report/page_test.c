/* SPDX-License-Identifier: MIT
 *
 * Tests the parts of a page: rows whose step doubles, compressed text in base64, and escaped HTML.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "report/exports/page/document.h"
#include "report/exports/page/rows.h"
#include "report/exports/page/stream.h"

/* ---- rows --------------------------------------------------------------------------------- */

static uint64_t sum_of(const page_rows_t *rows) {
  uint64_t sum = 0;
  for (size_t i = 0; i < rows->count; i++)
    sum += rows->items[i].amount;
  return sum;
}

static void equal_rows_are_added_up(void **state) {
  (void)state;
  page_rows_t rows = {.unit_ns = 1000, .limit = 100};
  const page_row_t row = {.from = 1500, .to = PAGE_NEVER, .place = 3, .count = 1, .amount = 8};
  page_row_t later = row;
  later.from = 2100;
  assert_true(page_rows_add(&rows, &row) && page_rows_add(&rows, &row));
  assert_true(page_rows_add(&rows, &later));
  assert_int_equal(rows.count, 2);
  assert_int_equal(rows.items[0].from, 1);
  assert_int_equal(rows.items[0].count, 2);
  assert_int_equal(rows.items[0].amount, 16);
  assert_true(rows.items[0].to == PAGE_NEVER);
  page_rows_free(&rows);
}

/* The index has the rows of one step as long as they come in order. */
static void a_row_of_an_earlier_step_is_found(void **state) {
  (void)state;
  page_rows_t rows = {.unit_ns = 1000, .limit = 10000};
  page_row_t row = {.to = PAGE_NEVER, .amount = 1};
  for (uint32_t i = 0; i < 50; i++, row.from += 1000)
    assert_true(page_rows_add(&rows, &row));
  for (int time = 0; time < 2; time++)
    for (row.place = 1; row.place < 500; row.place++)
      assert_true(page_rows_add(&rows, &row));
  assert_int_equal(rows.count, 549);
  row.place = 0;
  for (row.from = 0; row.from < 50000; row.from += 1000)
    assert_true(page_rows_add(&rows, &row));
  assert_int_equal(rows.count, 549);
  assert_int_equal(rows.items[0].amount, 2);
  assert_int_equal(sum_of(&rows), 50 + 2 * 499 + 50);
  page_rows_free(&rows);
}

static void too_many_rows_double_the_step(void **state) {
  (void)state;
  page_rows_t rows = {.unit_ns = 1000, .limit = 64};
  for (uint64_t i = 0; i < 10000; i++) {
    const page_row_t row = {.from = i * 1000, .to = i * 1000 + 500, .amount = i};
    assert_true(page_rows_add(&rows, &row));
    assert_true(rows.count <= 64);
  }
  assert_int_equal(sum_of(&rows), 9999 * 10000 / 2);
  page_rows_sort(&rows);
  for (size_t i = 1; i < rows.count; i++)
    assert_true(rows.items[i - 1].from < rows.items[i].from);
  page_rows_free(&rows);
}

/* The step grows to what the rows need at once, and not further: half of it has too many rows. */
static void the_step_is_not_longer_than_needed(void **state) {
  (void)state;
  enum { LIMIT = 1024, ROWS = 64 * LIMIT };
  page_rows_t rows = {.unit_ns = 1, .limit = LIMIT};
  for (uint64_t i = 0; i < ROWS; i++) {
    /* In no order, as blocks that are live at the end. */
    const page_row_t row = {.from = (i * 40503) % ROWS * 1000, .to = PAGE_NEVER, .amount = i};
    assert_true(page_rows_add(&rows, &row));
  }
  assert_in_range(rows.count, LIMIT * 7 / 16, LIMIT);
  assert_int_equal(rows.unit_ns & (rows.unit_ns - 1), 0);
  assert_int_equal(sum_of(&rows), (uint64_t)(ROWS - 1) * ROWS / 2);
  page_rows_free(&rows);
}

/* Different places cannot be joined; the rows end to grow with their number. */
static void places_beyond_the_limit_are_kept(void **state) {
  (void)state;
  page_rows_t rows = {.unit_ns = 1000, .limit = 64};
  for (uint32_t i = 0; i < 1000; i++) {
    const page_row_t row = {.from = i * UINT64_C(1000), .place = i % 200, .amount = 1};
    assert_true(page_rows_add(&rows, &row));
  }
  assert_true(rows.count <= 200);
  assert_int_equal(sum_of(&rows), 1000);
  page_rows_free(&rows);
}

/* ---- the stream --------------------------------------------------------------------------- */

static int digit_of(char c) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = strchr(digits, c);
  return at ? (int)(at - digits) : -1;
}

/* Decodes base64 in place. Returns the number of bytes. */
static size_t decode(char *text, size_t size) {
  size_t count = 0;
  assert_int_equal(size % 4, 0);
  for (size_t i = 0; i < size; i += 4) {
    uint32_t three = 0;
    int bytes = 3 - (text[i + 2] == '=') - (text[i + 3] == '=');
    for (size_t k = 0; k < 4; k++) {
      int digit = text[i + k] == '=' ? 0 : digit_of(text[i + k]);
      assert_true(digit >= 0);
      three = three << 6 | (uint32_t)digit;
    }
    for (int k = 0; k < bytes; k++)
      text[count++] = (char)(three >> (16 - 8 * k));
  }
  return count;
}

static void text_comes_back(void **state) {
  (void)state;
  static char found[4000000];
  char *file = NULL, *whole = calloc(1, 4000000);
  size_t size, length = 0;
  page_stream_t *stream = malloc(sizeof *stream);
  FILE *out = open_memstream(&file, &size);
  assert_true(page_stream_start(stream, out, true));
  for (uint64_t i = 0, x = 1; i < 200000; i++) {
    x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
    int64_t number = i ? (int64_t)x >> i % 64 : INT64_MIN;
    page_put_number(stream, number);
    page_put(stream, ",");
    length += (size_t)sprintf(whole + length, "%" PRId64 ",", number);
  }
  assert_true(page_stream_end(stream));
  fclose(out);
  z_stream zip = {.next_in = (Bytef *)file, .next_out = (Bytef *)found};
  zip.avail_in = (uInt)decode(file, size);
  zip.avail_out = sizeof found;
  assert_int_equal(inflateInit2(&zip, 15 + 16), Z_OK);
  assert_int_equal(inflate(&zip, Z_FINISH), Z_STREAM_END);
  assert_int_equal(zip.total_out, length);
  assert_memory_equal(found, whole, length);
  inflateEnd(&zip);
  free(file);
  free(whole);
  free(stream);
}

/* ---- HTML --------------------------------------------------------------------------------- */

static void is_escaped(const char *text, const char *expected) {
  char *found = NULL;
  size_t size;
  FILE *out = open_memstream(&found, &size);
  page_html(text, out);
  fclose(out);
  assert_string_equal(found, expected);
  free(found);
}

static void html_is_escaped(void **state) {
  (void)state;
  is_escaped("a<b> & \"c\" 'd'", "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  is_escaped("tab\there\x1b[31m\n", "tab\xef\xbf\xbdhere\xef\xbf\xbd[31m\n");
  is_escaped("caf\xc3\xa9 \xff\xc3", "caf\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(equal_rows_are_added_up),
                                     cmocka_unit_test(a_row_of_an_earlier_step_is_found),
                                     cmocka_unit_test(too_many_rows_double_the_step),
                                     cmocka_unit_test(the_step_is_not_longer_than_needed),
                                     cmocka_unit_test(places_beyond_the_limit_are_kept),
                                     cmocka_unit_test(text_comes_back),
                                     cmocka_unit_test(html_is_escaped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
