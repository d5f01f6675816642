/* SPDX-License-Identifier: MIT
 *
 * Nodes by id: of two nodes with one id the later one counts, however far the id is from the
 * others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "analysis/samples.h"
#include "base/ids.h"
#include "reader/internal.h"

/* Ids in more pages than a map may have (base/ids.h): so the last ones have none. */
#define PAGES  (2 * IDS_PAGES_ALWAYS)
#define FAR(k) ((k)*IDS_PAGE + 17)
#define LAST   FAR(PAGES)

static void the_later_node_counts(void **state) {
  (void)state;
  reader_t *r = reader_new();
  assert_non_null(r);
  assert_int_equal(reader_set_node(r, 7, 0, 100), 7);
  assert_int_equal(reader_set_node(r, 7, 0, 200), 7);
  assert_int_equal(reader_node(r, 7)->frame, 200);
  for (uint32_t k = 1; k <= PAGES; k++)
    for (uint32_t frame = 100; frame <= 200; frame += 100)
      assert_int_equal(reader_set_node(r, FAR(k), k == 1 ? 7 : FAR(k - 1), frame), FAR(k));
  assert_int_equal(r->node_ids.used, IDS_PAGES_ALWAYS);
  assert_true(r->node_ids.others_count > 0);
  for (uint32_t k = 1; k <= PAGES; k++) {
    assert_int_equal(reader_node(r, FAR(k))->frame, 200);
    assert_null(reader_node(r, FAR(k) + 1));
  }
  assert_int_equal(reader_set_node(r, LAST, 1, 300), LAST);
  assert_int_equal(reader_node(r, LAST)->frame, 300);
  assert_int_equal(reader_node(r, 7)->frame, 200);
  assert_null(reader_node(r, UINT32_MAX));
  reader_close(r);
}

/* A stack has the frames of the last node of each id, also if it was made before them. */
static void a_stack_has_the_later_nodes(void **state) {
  (void)state;
  const record_frame_t frame = {.pc = 1};
  const record_frame_t *frames[PAGES + 2];
  reader_t *r = reader_new();
  assert_non_null(r);
  uint32_t first = reader_add_frame(r, &frame), second = reader_add_frame(r, &frame);
  assert_int_equal(reader_set_node(r, 7, 0, first), 7);
  for (uint32_t k = 1; k <= PAGES; k++)
    assert_int_equal(reader_set_node(r, FAR(k), k == 1 ? 7 : FAR(k - 1), first), FAR(k));
  assert_int_equal(reader_set_node(r, 7, 0, second), 7);
  assert_int_equal(reader_stack(r, LAST, frames, PAGES + 2), PAGES + 1);
  for (uint32_t k = 0; k <= PAGES; k++)
    assert_int_equal(frames[k]->id, k < PAGES ? first : second);
  assert_int_equal(reader_set_node(r, FAR(1), 8, first), FAR(1)); /* there is no node 8 */
  assert_int_equal(reader_stack(r, LAST, frames, PAGES + 2), -1);
  assert_int_equal(reader_stack(r, 8, frames, PAGES + 2), -1);
  assert_int_equal(reader_stack(r, 0, frames, PAGES + 2), 0);
  assert_int_equal(reader_set_node(r, FAR(1), LAST, first), FAR(1)); /* a cycle */
  assert_int_equal(reader_stack(r, LAST, frames, PAGES + 2), -1);
  reader_close(r);
}

static void a_stack_is_counted_once(void **state) {
  (void)state;
  samples_t s = {0};
  record_event_t e = {.kind = EVENT_SAMPLE};
  for (int round = 0; round < 2; round++)
    for (uint32_t k = 0; k <= PAGES; k++) {
      e.stack = FAR(k);
      assert_true(samples_add(&s, &e));
    }
  assert_int_equal(s.stack_count, PAGES + 1);
  assert_int_equal(s.ticks, 2 * (PAGES + 1));
  for (size_t i = 0; i < s.stack_count; i++)
    assert_int_equal(s.stacks[i].ticks, 2);
  samples_free(&s);
}

/* Random ids and numbers, beside an array of pairs. */
static void a_map_keeps_what_was_set(void **state) {
  (void)state;
  enum { COUNT = 3000 };
  static uint32_t ids[COUNT], numbers[COUNT];
  uint64_t random = (uint64_t)time(NULL);
  print_message("seed %llu\n", (unsigned long long)random);
  for (int limited = 0; limited <= 1; limited++) {
    ids_t map = ids_with(limited ? 0 : 100 * IDS_PAGE * sizeof(uint32_t));
    size_t count = 0;
    for (int step = 0; step < 2 * COUNT; step++) {
      random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
      uint32_t page = (uint32_t)(random >> 60) ? (uint32_t)(random >> 40) % 300 : 1000000;
      uint32_t id = page * IDS_PAGE + (uint32_t)(random >> 52) % 8, number = (uint32_t)step;
      size_t i = 0;
      while (i < count && ids[i] != id)
        i++;
      if (i == COUNT) continue;
      count += i == count;
      ids[i] = id;
      numbers[i] = number;
      assert_true(ids_set(&map, id, number));
      assert_int_equal(ids_find(&map, id), number + 1);
    }
    for (size_t i = 0; i < count; i++) {
      assert_int_equal(ids_find(&map, ids[i]), numbers[i] + 1);
      assert_int_equal(ids_find(&map, ids[i] + 8), 0);
    }
    assert_true(map.used <= IDS_PAGES_ALWAYS + map.more);
    ids_free(&map);
    assert_int_equal(ids_find(&map, ids[0]), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_later_node_counts), cmocka_unit_test(a_stack_has_the_later_nodes),
      cmocka_unit_test(a_stack_is_counted_once), cmocka_unit_test(a_map_keeps_what_was_set)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
