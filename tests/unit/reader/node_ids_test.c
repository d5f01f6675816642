/* SPDX-License-Identifier: MIT
 *
 * Nodes by id: of two nodes with one id the later one counts, however far the id is from the
 * others. A random test prints its seed; SONDE_SEED repeats it.
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

/* Ids that are so far apart that half of them have neither a page nor a place in the array
 * (base/ids.h). */
#define LOW_PAGES (IDS_LOW / IDS_PAGE)
#define PAGES     (2 * LOW_PAGES)
#define FAR(k)    ((k)*IDS_PAGE + 17)
#define LAST      FAR(PAGES)

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
  assert_int_equal(r->node_ids.page_count, 1);
  assert_int_equal(r->node_ids.count, PAGES + 1);
  assert_int_equal(r->node_ids.others_count, LOW_PAGES);
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

/* The frames of STACK are SECOND for the outermost node and FIRST for all others. */
static void check_stack(const reader_t *r, uint32_t stack, uint32_t first, uint32_t second) {
  const record_frame_t *frames[PAGES + 2];
  assert_int_equal(reader_stack(r, stack, frames, PAGES + 2), PAGES + 1);
  for (uint32_t k = 0; k <= PAGES; k++)
    assert_int_equal(frames[k]->id, k < PAGES ? first : second);
}

/* A stack has the last node of each id, also if that was added after the links were made. */
static void a_stack_has_the_later_nodes(void **state) {
  (void)state;
  const record_frame_t frame = {.pc = 1}, *frames[PAGES + 2];
  reader_t *r = reader_new();
  assert_non_null(r);
  uint32_t first = reader_add_frame(r, &frame), second = reader_add_frame(r, &frame);
  for (uint32_t k = PAGES; k >= 1; k--) /* a parent after its child */
    assert_int_equal(reader_set_node(r, FAR(k), k == 1 ? 7 : FAR(k - 1), first), FAR(k));
  assert_int_equal(reader_set_node(r, 7, 0, first), 7);
  assert_int_equal(reader_link_nodes(r), 0);
  check_stack(r, LAST, first, first);
  for (int round = 0; round < 3; round++) {
    assert_int_equal(reader_set_node(r, 7, 0, second), 7);
    check_stack(r, LAST, first, second);
    assert_int_equal(reader_set_node(r, 7, 0, first), 7);
    check_stack(r, LAST, first, first);
  }
  uint32_t inner = reader_add_node(r, LAST, second);
  assert_int_equal(inner, LAST + 1);
  assert_int_equal(reader_stack(r, inner, frames, 1), PAGES + 2);
  assert_int_equal(frames[0]->id, second);
  assert_int_equal(reader_set_node(r, FAR(1), 8, first), FAR(1)); /* there is no node 8 */
  assert_int_equal(reader_stack(r, LAST, frames, PAGES + 2), -1);
  assert_int_equal(reader_stack(r, 8, frames, PAGES + 2), -1);
  assert_int_equal(reader_stack(r, 0, frames, PAGES + 2), 0);
  assert_int_equal(reader_set_node(r, FAR(1), 7, first), FAR(1));
  check_stack(r, LAST, first, first);
  assert_int_equal(reader_set_node(r, 7, LAST, first), 7); /* a cycle */
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

static uint64_t seed;

static uint32_t next_random(void) {
  seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (uint32_t)(seed >> 32);
}

/* Most ids are near others, some anywhere. */
static uint32_t random_id(void) {
  uint32_t r = next_random();
  switch (r % 8) {
  case 0: return next_random();
  case 1: return UINT32_MAX - next_random() % 4;
  case 2: return UINT32_C(0x80000000) + next_random() % 8;
  default: return next_random() % 300 * IDS_PAGE + next_random() % 8;
  }
}

/* Beside an array of pairs. */
static void a_map_keeps_what_was_set(void **state) {
  (void)state;
  enum { COUNT = 3000 };
  static uint32_t ids[COUNT], numbers[COUNT];
  ids_t map = {0};
  size_t count = 0;
  for (uint32_t step = 0; step < 2 * COUNT; step++) {
    uint32_t id = random_id();
    size_t i = 0;
    while (i < count && ids[i] != id)
      i++;
    assert_int_equal(ids_find(&map, id), i < count ? numbers[i] + 1 : 0);
    if (i == COUNT) continue;
    count += i == count;
    ids[i] = id;
    numbers[i] = step;
    assert_true(ids_set(&map, id, step));
  }
  for (size_t i = 0; i < count; i++)
    assert_int_equal(ids_find(&map, ids[i]), numbers[i] + 1);
  assert_int_equal(map.count, count);
  assert_true(map.page_count > 1 && (map.page_count - 1) * IDS_PAGE / IDS_PER_ID <= count);
  ids_free(&map);
  assert_int_equal(ids_find(&map, ids[0]), 0);
}

/* Ids that were too far apart for pages get them when there are many; each is there once. */
static void pages_come_with_more_ids(void **state) {
  (void)state;
  ids_t map = {0};
  for (uint32_t k = 1; k <= PAGES; k++)
    assert_true(ids_set(&map, FAR(k), k));
  size_t others = map.others_count;
  assert_int_equal(others, LOW_PAGES);
  for (uint32_t id = 0; id < IDS_PAGE; id++)
    assert_true(ids_set(&map, id, id));
  assert_true(ids_set(&map, FAR(PAGES) + 1, 5));
  assert_int_equal(map.page_count, 2);
  assert_int_equal(ids_find(&map, FAR(PAGES)), PAGES + 1);
  assert_true(ids_set(&map, FAR(PAGES), 6));
  assert_int_equal(ids_find(&map, FAR(PAGES)), 7);
  assert_int_equal(ids_find(&map, FAR(PAGES) + 1), 6);
  assert_int_equal(map.others_count, others);
  ids_free(&map);
  map.expected = PAGES * IDS_PAGE / IDS_PER_ID;
  for (uint32_t k = 1; k <= PAGES; k++)
    assert_true(ids_set(&map, FAR(k), k));
  assert_int_equal(map.others_count, 0);
  ids_free(&map);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_later_node_counts), cmocka_unit_test(a_stack_has_the_later_nodes),
      cmocka_unit_test(a_stack_is_counted_once), cmocka_unit_test(a_map_keeps_what_was_set),
      cmocka_unit_test(pages_come_with_more_ids)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
