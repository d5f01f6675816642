/* SPDX-License-Identifier: MIT
 *
 * Waits of phases that markers begin: what is kept are the phases with waits, however many markers
 * there are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "record/extended.h"
#include "report/exports/profile/times.h"

static profile_times_t times;

static void add(uint8_t subtype, const extended_body_t *body) {
  const record_event_t event = {
      .kind = EVENT_EXTENDED, .subtype = subtype, .body = body->bytes, .body_size = body->used};
  assert_true(profile_times_add(&times, &event));
}

static void mark(const char *name) {
  extended_body_t body = {0};
  extended_string(&body, name, strlen(name));
  extended_number(&body, 0);
  add(EXTENDED_MARKER, &body);
}

static void wait_in(const char *call, uint64_t ns) {
  const uint64_t before[] = {7, ns, 1, 3, 0, 0}, after[] = {0, 0, 0, 0};
  extended_body_t body = {0};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++)
    extended_number(&body, before[i]);
  extended_string(&body, call, strlen(call));
  for (size_t i = 0; i < sizeof after / sizeof *after; i++)
    extended_number(&body, after[i]);
  extended_string(&body, "", 0);
  add(EXTENDED_WALL, &body);
}

static size_t texts(void) {
  size_t count = 0;
  for (const text_copy_t *text = times.texts; text; text = text->next)
    count++;
  return count;
}

static int start(void **state) {
  (void)state;
  times = (profile_times_t){0};
  return 0;
}

static int end(void **state) {
  (void)state;
  profile_times_free(&times);
  return 0;
}

static void waits_are_added_up_by_phase(void **state) {
  (void)state;
  static const struct {
    const char *phase;
    uint64_t ns;
  } expected[] = {{"", 1}, {"load", 110}, {"draw", 1000}, {"", 10000}};
  wait_in("poll", 1);
  mark("load");
  wait_in("poll", 10);
  mark("draw");
  wait_in("poll", 1000);
  mark("load");
  wait_in("poll", 100);
  mark("nothing");
  mark("");
  wait_in("read", 10000);
  assert_int_equal(times.count, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(times.items[i].phase, expected[i].phase);
    assert_int_equal(times.items[i].wait_ns, expected[i].ns);
  }
}

static void markers_without_waits_need_no_memory(void **state) {
  (void)state;
  char name[32];
  for (int i = 0; i < 10000; i++) {
    snprintf(name, sizeof name, "frame %d", i);
    mark(name);
  }
  assert_int_equal(texts(), 0);
  wait_in("poll", 1);
  size_t one = texts();
  for (int i = 0; i < 10000; i++) {
    mark("frame 9999");
    wait_in("poll", 1);
  }
  assert_int_equal(texts(), one);
  assert_int_equal(times.count, 1);
  assert_int_equal(times.items[0].wait_ns, 10001);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(waits_are_added_up_by_phase, start, end),
      cmocka_unit_test_setup_teardown(markers_without_waits_need_no_memory, start, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
