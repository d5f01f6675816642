/* SPDX-License-Identifier: MIT
 *
 * Tests keys and the layout without a terminal: every page at every width, hostile names, and a
 * terminal without UTF-8. A random session prints its seed; SONDE_SEED repeats it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <locale.h>
#include <time.h>
#include <wchar.h>

#include <cmocka.h>

#include "top/layout.h"

enum { THREADS = 30 };

/* A model with names that a terminal would obey. */
static void fill(top_model_t *m) {
  strcpy(m->program, "/usr/bin/\033[2Jevil\n\xc3\xa9");
  strcpy(m->heap.why, "without the agent: no allocations");
  m->sampling = "running threads by perf";
  for (int i = 0; i < THREADS; i++) {
    top_thread_t *t = top_threads_read(
        &m->threads,
        &(top_reading_t){100 + i, "RSTDZ"[i % 5], (uint64_t)i * 1000, 0, (uint64_t)i + 1}, 5);
    snprintf(t->name, sizeof t->name, i % 3 ? "\033]0;x\a\x9b%d" : "\xf0\x9f\x90\x8d\xe6\xbc\xa2%d",
             i);
    snprintf(t->call, sizeof t->call, "read fd 3 pipe:[%d]\x80\xff\xe2\x80\xae", i);
  }
  for (int i = 0; i < 40; i++) {
    char name[400];
    memset(name, 'a' + i % 26, sizeof name);
    snprintf(name + i * 9, 20, "(\033[31m\n)%d", i);
    top_functions_add(&m->functions,
                      &(top_frame_t){.function = name, .library = "lib", .is_own = true}, 1, 100);
  }
  m->stack.tid = 100;
  m->stack.rows = calloc(3, sizeof *m->stack.rows);
  m->stack.count = m->stack.capacity = 3;
  for (int i = 0; i < 3; i++)
    strcpy(m->stack.rows[i].name, "frame\t\033[0m");
}

static unsigned columns_of(const char *text, bool is_utf8) {
  unsigned columns = 0;
  mbstate_t state = {0};
  while (*text) {
    wchar_t c;
    size_t n = mbrtowc(&c, text, 8, &state);
    assert_true(n > 0 && n < 8);
    assert_true(is_utf8 || (unsigned char)*text < 0x80);
    assert_true(c >= ' ' && c != 0x7f && !(c >= 0x80 && c < 0xa0) && c != 0x202e);
    columns += (unsigned)wcwidth(c);
    text += n;
  }
  return columns;
}

static void check(const top_model_t *model, top_view_t *view, top_lines_t *lines) {
  top_layout(model, view, lines);
  if (view->is_live) assert_true(lines->count <= view->rows);
  for (size_t i = 0; i < lines->count; i++)
    assert_true(columns_of(lines->items[i].text, view->is_utf8) <= view->columns);
}

static void test_sizes(void **state) {
  (void)state;
  top_model_t model = {.pid = 1};
  top_lines_t lines = {0};
  fill(&model);
  for (int page = 0; page < 3 * TOP_PAGES; page++)
    for (unsigned columns = 1; columns <= 220; columns += columns < 60 ? 3 : 37)
      for (unsigned rows = 1; rows <= 60; rows += rows < 12 ? 2 : 13) {
        top_view_t view = {.columns = columns,
                           .rows = rows,
                           .is_live = true,
                           .is_utf8 = columns % 2,
                           .page = (top_page_t)(page % TOP_PAGES),
                           .is_help = page / TOP_PAGES == 1,
                           .is_stack = page / TOP_PAGES == 2};
        check(&model, &view, &lines);
      }
  free(lines.items);
  top_model_free(&model);
}

/* Whether a line of the layout contains TEXT. */
static bool shows(const top_model_t *model, const top_view_t *view, const char *text) {
  top_lines_t lines = {0};
  bool found = false;
  top_layout(model, view, &lines);
  for (size_t i = 0; i < lines.count; i++)
    found |= strstr(lines.items[i].text, text) != NULL;
  free(lines.items);
  return found;
}

static void test_keys(void **state) {
  (void)state;
  top_model_t model = {.pid = 1};
  top_view_t v = {.columns = 80, .rows = 24, .is_live = true, .is_utf8 = true, .sort = TOP_BY_TID};
  fill(&model);
  assert_true(shows(&model, &v, "TID"));
  assert_int_equal(top_view_key(&v, &model, 'j'), TOP_DRAW);
  assert_int_equal(v.selected, 101);
  top_view_key(&v, &model, TOP_KEY_END);
  assert_int_equal(v.selected, 100 + THREADS - 1);
  assert_true(shows(&model, &v, "129")); /* scrolled to it */
  top_view_key(&v, &model, 'k');
  assert_int_equal(v.selected, 100 + THREADS - 2);
  assert_int_equal(top_view_key(&v, &model, TOP_KEY_ENTER), TOP_READ_STACK);
  assert_true(v.is_stack);
  assert_true(shows(&model, &v, "#2"));
  top_view_key(&v, &model, TOP_KEY_ESCAPE);
  assert_false(v.is_stack);
  top_view_key(&v, &model, 't');
  top_view_key(&v, &model, 't');
  assert_int_equal(v.page, TOP_FUNCTIONS);
  top_view_key(&v, &model, 's');
  assert_int_equal(v.rank, TOP_RANK_OWN);
  top_view_key(&v, &model, 't');
  assert_true(shows(&model, &v, "without the agent"));
  top_view_key(&v, &model, 'p');
  assert_true(v.is_frozen && shows(&model, &v, "FROZEN"));
  top_view_key(&v, &model, ' ');
  assert_false(v.is_frozen);
  top_view_key(&v, &model, '?');
  assert_true(shows(&model, &v, "any key returns"));
  top_view_key(&v, &model, 'x');
  assert_false(v.is_help);
  assert_int_equal(top_view_key(&v, &model, 'm'), TOP_SWITCH_MALLOC);
  assert_int_equal(top_view_key(&v, &model, 'c'), TOP_SWITCH_SAMPLE);
  for (const char *p = "/1q0"; *p; p++)
    assert_int_equal(top_view_key(&v, &model, *p), TOP_DRAW); /* q is a part of the filter */
  top_view_key(&v, &model, TOP_KEY_BACKSPACE);
  assert_string_equal(v.filter, "1q");
  top_view_key(&v, &model, TOP_KEY_ENTER);
  assert_int_equal(top_view_key(&v, &model, 'q'), TOP_QUIT);
  top_view_key(&v, &model, TOP_KEY_ESCAPE);
  assert_string_equal(v.filter, "");
  top_model_free(&model);
}

static void test_random_keys(void **state) {
  (void)state;
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  print_message("SONDE_SEED=%u\n", seed);
  srand(seed);
  top_model_t model = {.pid = 1};
  top_view_t v = {.columns = 80, .rows = 24, .is_live = true, .is_utf8 = true};
  top_lines_t lines = {0};
  fill(&model);
  for (int i = 0; i < 1000; i++) {
    int key = rand() % 3 ? rand() % 128 : TOP_KEY_UP + rand() % 9;
    top_view_key(&v, &model, key);
    v.columns = 1 + (unsigned)rand() % 200;
    v.rows = 1 + (unsigned)rand() % 60;
    check(&model, &v, &lines);
  }
  free(lines.items);
  top_model_free(&model);
}

static void test_put(void **state) {
  (void)state;
  static const struct {
    const char *text, *utf8, *plain;
    unsigned width;
  } cases[] = {{"abc", "abc", "abc", 10},
               {"abcdef", "abc", "abc", 3},
               {"\033[2J\a\x7f", "?[2J??", "?[2J??", 10},
               {"\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9", "?t?", 10},
               {"\xe6\xbc\xa2\xe5\xad\x97", "\xe6\xbc\xa2", "??", 3}, /* two columns each */
               {"a\xe2\x80\xa6", "a\xe2\x80\xa6", "a.", 10},
               {"\xc3", "?", "?", 10},
               {"\xc0\xaf\xed\xa0\x80", "?????", "?????", 10},
               {"\xe2\x80\xaex", "?x", "?x", 10},
               {"\xc2\x9b"
                "31m",
                "?31m", "?31m", 10}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    top_line_t line = {.text = ""};
    top_put(&line, true, cases[i].text, cases[i].width);
    assert_string_equal(line.text, cases[i].utf8);
    line.text[0] = 0;
    top_put(&line, false, cases[i].text, cases[i].width);
    assert_string_equal(line.text, cases[i].plain);
  }
}

int main(void) {
  if (!setlocale(LC_CTYPE, "C.UTF-8")) return 77;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_keys),
                                     cmocka_unit_test(test_random_keys),
                                     cmocka_unit_test(test_put)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
