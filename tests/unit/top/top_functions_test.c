/* SPDX-License-Identifier: MIT
 *
 * Tests the window of functions and the readings that the budget allows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "top/budget.h"
#include "top/functions.h"
#include "top/names.h"

static const top_frame_t copy = {.function = "memcpy", .library = "libc.so.6", .is_system = true},
                         sort = {.function = "std::sort<int*>(int*, int*)", .library = "app"},
                         hot = {.function = "hot",
                                .file = "a.c",
                                .line = 3,
                                .library = "app",
                                .is_own = true},
                         run = {.function = "run", .library = "app", .is_own = true},
                         nameless = {.library = "libz.so"};

/* Adds a sample and returns the function NAME. */
static const top_function_t *find(const top_functions_t *f, const char *name) {
  for (size_t i = 0; i < f->count; i++)
    if (!strcmp(f->items[i].name, name)) return &f->items[i];
  fail_msg("no %s", name);
  return NULL;
}

static void test_folding(void **state) {
  (void)state;
  top_functions_t f = {0};
  const top_function_t *list[8];
  assert_true(top_functions_add(&f, (top_frame_t[]){copy, sort, hot, run}, 4, 30));
  assert_true(top_functions_add(&f, (top_frame_t[]){hot, hot, hot, run}, 4, 10)); /* recursion */
  assert_true(top_functions_add(&f, (top_frame_t[]){copy, nameless}, 2, 5));
  assert_int_equal(f.time_ns, 45);
  assert_int_equal(find(&f, "hot")->total_ns, 40);
  assert_int_equal(find(&f, "hot")->own_ns, 40); /* with the library and the template it called */
  assert_int_equal(find(&f, "run")->total_ns, 40);
  assert_int_equal(find(&f, "run")->own_ns, 0);
  assert_int_equal(find(&f, "memcpy")->own_ns, 0);
  assert_int_equal(find(&f, "libz.so")->own_ns, 5);
  assert_string_equal(find(&f, "hot")->place, "a.c:3");
  /* Own functions first; run only calls others. */
  assert_int_equal(top_functions_list(&f, TOP_RANK_TOTAL, "", list, 8), 2);
  assert_string_equal(list[0]->name, "hot");
  assert_string_equal(list[1]->name, "libz.so");
  assert_int_equal(top_functions_list(&f, TOP_RANK_OWN, "LIBZ", list, 8), 1);
  top_functions_free(&f);
}

static void test_window(void **state) {
  (void)state;
  top_functions_t f = {0};
  const top_function_t *list[8];
  top_functions_add(&f, &hot, 1, 10);
  for (int i = 0; i < TOP_SLICES - 1; i++)
    top_functions_turn(&f);
  top_functions_add(&f, &hot, 1, 7);
  assert_int_equal(find(&f, "hot")->total_ns, 17);
  top_functions_turn(&f);
  assert_int_equal(find(&f, "hot")->total_ns, 7);
  assert_int_equal(f.time_ns, 7);
  for (int i = 0; i < TOP_SLICES; i++)
    top_functions_turn(&f);
  assert_int_equal(f.time_ns, 0);
  assert_int_equal(top_functions_list(&f, TOP_RANK_TOTAL, "", list, 8), 0);
  top_functions_free(&f);
}

/* Functions without time are dropped when there are many of them. */
static void test_many(void **state) {
  (void)state;
  top_functions_t f = {0};
  for (int i = 0; i < 20000; i++) {
    char name[16];
    snprintf(name, sizeof name, "f%d", i);
    assert_true(top_functions_add(&f, &(top_frame_t){.function = name, .library = ""}, 1, 1));
    if (i % 500 == 0) top_functions_turn(&f);
  }
  assert_true(f.count < 12000);
  assert_int_equal(find(&f, "f19999")->total_ns, 1);
  top_functions_free(&f);
}

static void test_budget(void **state) {
  (void)state;
  top_costs_t costs = {0};
  top_costs_add(&costs, 60000000); /* the first one reads symbols */
  assert_int_equal(top_costs_least(&costs), 0);
  top_costs_add(&costs, 3000000);
  assert_int_equal(top_costs_least(&costs), 3000000);
  for (int i = 0; i < TOP_COSTS; i++)
    top_costs_add(&costs, 5000000);
  assert_int_equal(top_costs_least(&costs), 5000000);
  assert_int_equal(top_period_ns(1000000000, 5000000, 0.01), 1000000000);
  assert_int_equal(top_period_ns(1000000000, 20000000, 0.01), 2000000000);
  assert_int_equal(top_period_ns(1000000000, UINT64_MAX, 0.01), TOP_PERIOD_MAX_NS);
  assert_int_equal(top_interval_ns(0.3, 0), 20000000);
  assert_int_equal(top_interval_ns(4, 0), 80000000);
  assert_int_equal(top_interval_ns(1, 1000000), 200000000); /* 5 a second cost 0.5 % */
}

static void test_plain_names(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"__GI___poll@@GLIBC_2.2.5", "poll"},
      {"___pthread_cond_wait", "pthread_cond_wait"},
      {"__GI___libc_read", "read"},
      {"__new_sem_wait", "sem_wait"},
      {"epoll_wait", "epoll_wait"},
      {"__libc_recv", "recv"},
      {"__pthread_clockjoin_ex", "pthread_join"},
      {"usleep", "usleep"},
      {"", ""},
      {"std::condition_variable::wait(std::unique_lock<std::mutex>&)",
       "std::condition_variable::wait"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char out[64];
    top_plain_name(cases[i][0], out, sizeof out);
    assert_string_equal(out, cases[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_folding), cmocka_unit_test(test_window),
                                     cmocka_unit_test(test_many), cmocka_unit_test(test_budget),
                                     cmocka_unit_test(test_plain_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
