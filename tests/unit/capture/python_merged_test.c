/* SPDX-License-Identifier: MIT
 *
 * Ids of merged stacks: each id has the pair that it was made of, is announced before it is
 * returned, and stays valid after its pair left the cache. Few pairs get a second id, however many
 * there are: a program's memory depends on its stacks, not on its events.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "capture/python/python_merged.h"

enum { PAIRS = 200000, THREADS = 4 };

static uint32_t announced[4 * PAIRS], visited;

static void note(uint32_t id, uint32_t native, uint32_t chain) {
  uint32_t number = id - MERGED_FIRST;
  if (number < sizeof announced / sizeof announced[0])
    store_release(&announced[number], native * 3 + chain);
}

static void visit(uint32_t id, uint32_t native, uint32_t chain) {
  assert_int_equal(announced[id - MERGED_FIRST], native * 3 + chain);
  visited++;
}

static int start(void **state) {
  (void)state;
  python_merged_on_new = note;
  return python_merged_start() ? 0 : -1;
}

static uint32_t id_of(uint32_t native, uint32_t chain) {
  uint32_t id = python_merged_find(native, chain);
  return id ? id : python_merged_add(native, chain);
}

static void an_id_has_its_pair(void **state) {
  (void)state;
  assert_int_equal(python_merged_find(5, 6), 0);
  uint32_t native, chain, id = id_of(5, 6), other = id_of(6, 5);
  assert_true(id >= MERGED_FIRST);
  assert_int_not_equal(id, other);
  assert_int_equal(python_merged_find(5, 6), id);
  assert_int_equal(python_merged_find(6, 5), other);
  assert_true(python_merged_get(id, &native, &chain));
  assert_int_equal(native, 5);
  assert_int_equal(chain, 6);
  assert_false(python_merged_get(other + 1, &native, &chain));
  assert_false(python_merged_get(7, &native, &chain));
}

static uint32_t wrong;

static void *make(void *context) {
  uint32_t first = *(uint32_t *)context;
  for (uint32_t i = 0; i < PAIRS / THREADS; i++) {
    uint32_t native, chain, id = id_of(first + i % 50000, i / 7);
    bool good =
        id && load_acquire(&announced[id - MERGED_FIRST]) == (first + i % 50000) * 3 + i / 7 &&
        python_merged_get(id, &native, &chain) && native == first + i % 50000 && chain == i / 7;
    if (!good) add_relaxed(&wrong, 1u);
  }
  return NULL;
}

/* More pairs than the cache holds, and the same ones in two threads. */
static void threads_share_the_ids(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  uint32_t first[THREADS] = {1, 1, 100000, 200000};
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, make, &first[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(wrong, 0);
  python_merged_each(visit);
  assert_in_range(visited, PAIRS / THREADS * 3, PAIRS + 2);
}

/* The last ids that the stack table has. Pairs are used in turn, so a cache that is too small lacks
 * all of them, in each round. */
static void pairs_that_are_used_again_keep_their_ids(void **state) {
  (void)state;
  enum { COUNT = 300000, HIGHEST = (1 << 27) - 1 };
  python_merged_on_new = NULL;
  visited = 0;
  for (int round = 0; round < 8; round++)
    for (uint32_t i = 0; i < COUNT; i++) {
      uint32_t native, chain, id = id_of(HIGHEST - i, HIGHEST - i / 3);
      assert_true(python_merged_get(id, &native, &chain));
      assert_int_equal(native, HIGHEST - i);
      assert_int_equal(chain, HIGHEST - i / 3);
    }
  uint32_t next = python_merged_add(1, 1), known = PAIRS + 2;
  assert_in_range(next - MERGED_FIRST, COUNT, known + COUNT * 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(an_id_has_its_pair, start),
                                     cmocka_unit_test(threads_share_the_ids),
                                     cmocka_unit_test(pairs_that_are_used_again_keep_their_ids)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
