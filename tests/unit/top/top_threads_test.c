/* SPDX-License-Identifier: MIT
 *
 * Tests what two readings of a thread's counters say: its state, CPU share and wait; and the lists.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "top/threads.h"

#define SECOND UINT64_C(1000000000)

static top_thread_t *read_at(top_threads_t *t, double seconds, top_reading_t r) {
  return top_threads_read(t, &r, (uint64_t)(seconds * 1e9));
}

static void test_shares(void **state) {
  (void)state;
  top_threads_t t = {0};
  top_thread_t *thread = read_at(&t, 1, (top_reading_t){7, 'R', 5 * SECOND, 0, 10});
  assert_int_equal(thread->state, TOP_RUNNING);
  assert_true(thread->cpu == 0); /* one reading has no interval */
  thread = read_at(&t, 3, (top_reading_t){7, 'R', 6 * SECOND, SECOND / 2, 20});
  assert_true(thread->cpu > 0.49 && thread->cpu < 0.51);
  assert_int_equal(thread->state, TOP_RUNNING);
  thread = read_at(&t, 4, (top_reading_t){7, 'R', 6 * SECOND + 1, SECOND, 21});
  assert_int_equal(thread->state, TOP_RUNNABLE); /* it waited for a CPU longer than it ran */
  thread = read_at(&t, 5, (top_reading_t){7, 'R', 6 * SECOND + 1, SECOND, 21});
  assert_int_equal(thread->state, TOP_RUNNABLE); /* it got none */
  thread = read_at(&t, 6, (top_reading_t){7, 'R', 1, SECOND, 21});
  assert_true(thread->cpu == 0); /* a counter that went back */
  top_threads_free(&t);
}

static void test_waits(void **state) {
  (void)state;
  top_threads_t t = {0};
  top_thread_t *thread = read_at(&t, 1, (top_reading_t){7, 'S', 100, 0, 10});
  assert_int_equal(thread->state, TOP_WAITING);
  strcpy(thread->call, "poll");
  thread->is_call_current = true;
  thread = read_at(&t, 4, (top_reading_t){7, 'S', 100, 0, 10});
  assert_int_equal(thread->waiting_ns, 3 * SECOND);
  assert_true(thread->is_call_current);
  thread = read_at(&t, 5, (top_reading_t){7, 'S', 200, 0, 11}); /* it woke, and waits again */
  assert_int_equal(thread->waiting_ns, 0);
  assert_false(thread->is_call_current);
  assert_string_equal(thread->call, "poll");
  thread = read_at(&t, 6, (top_reading_t){7, 'R', 300, 0, 12});
  assert_string_equal(thread->call, ""); /* what it ran is not where it waited */
  assert_int_equal(read_at(&t, 7, (top_reading_t){7, 'T', 300, 0, 12})->state, TOP_STOPPED);
  assert_int_equal(read_at(&t, 8, (top_reading_t){7, 'D', 300, 0, 12})->state, TOP_WAITING);
  assert_int_equal(read_at(&t, 9, (top_reading_t){7, 'Z', 300, 0, 12})->state, TOP_ENDED);
  top_threads_free(&t);
}

static void test_ends(void **state) {
  (void)state;
  top_threads_t t = {0};
  for (pid_t tid = 9; tid > 0; tid--)
    read_at(&t, 1, (top_reading_t){tid, 'S', 0, 0, 1});
  top_threads_end(&t);
  assert_int_equal(t.count, 9);
  for (pid_t tid = 2; tid < 10; tid += 2)
    read_at(&t, 2, (top_reading_t){tid, 'S', 0, 0, 1});
  top_threads_end(&t);
  assert_int_equal(t.count, 4);
  for (size_t i = 0; i < t.count; i++)
    assert_int_equal(t.items[i].tid, 2 * (pid_t)i + 2);
  assert_null(top_threads_find(&t, 3));
  assert_int_equal(top_threads_find(&t, 8)->tid, 8);
  top_threads_free(&t);
}

static void test_lists(void **state) {
  (void)state;
  static const char *const names[] = {"beta", "alpha", "gamma"};
  top_threads_t t = {0};
  const top_thread_t *list[3];
  for (int i = 0; i < 3; i++)
    strcpy(read_at(&t, 1, (top_reading_t){i + 1, i ? 'S' : 'R', 0, 0, 1})->name, names[i]);
  strcpy(top_threads_find(&t, 3)->call, "pthread_cond_wait");
  read_at(&t, 2, (top_reading_t){1, 'R', SECOND / 10, 0, 2});
  read_at(&t, 2, (top_reading_t){2, 'S', SECOND / 2, 0, 2});
  read_at(&t, 2, (top_reading_t){3, 'S', 0, 0, 1});
  static const pid_t expected[TOP_SORTS][3] = {{2, 1, 3}, {3, 1, 2}, {2, 1, 3}, {1, 2, 3}};
  for (int sort = 0; sort < TOP_SORTS; sort++) {
    assert_int_equal(top_threads_list(&t, (top_sort_t)sort, "", list, 3), 3);
    for (int i = 0; i < 3; i++)
      assert_int_equal(list[i]->tid, expected[sort][i]);
  }
  assert_int_equal(top_threads_list(&t, TOP_BY_CPU, "ALPH", list, 3), 1);
  assert_int_equal(top_threads_list(&t, TOP_BY_CPU, "cond", list, 3), 1);
  assert_int_equal(list[0]->tid, 3);
  top_threads_free(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_waits),
                                     cmocka_unit_test(test_ends), cmocka_unit_test(test_lists)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
