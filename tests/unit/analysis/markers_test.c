/* SPDX-License-Identifier: MIT
 *
 * Windows that begin and end at markers. The blocks of two threads and the markers of one all have
 * the time of one tick, so only the order of the events decides what is between the markers.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "analysis/markers.h"
#include "analysis/malloc/replay.h"
#include "record/writer.h"
#include "record/event.h"
#include "record/extended.h"
#include "recorded.h"

enum { MARKER = 1, OTHER = 2, OTHERS = 20 }; /* stacks; blocks of the thread without markers */

static uint64_t tick;

static void give(uint32_t stack, int first, int count) {
  for (int i = first; i < first + count; i++) {
    stream_t *s = writer_enter(RECORD_BLOCKS);
    if (!s || !event_put_new(s, EVENT_MALLOC, tick, UINT64_C(0x7f0000000000) + 64u * (unsigned)i,
                             10, stack))
      _exit(8);
    writer_leave(s);
  }
}

static void mark(const char *name) {
  stream_t *s = writer_enter(UINT32_MAX);
  extended_body_t body = {0};
  extended_string(&body, name, strlen(name));
  extended_number(&body, 0);
  if (!s || !extended_put(s, EXTENDED_MARKER, tick, &body)) _exit(7);
  writer_leave(s);
}

static void *others(void *unused) {
  give(OTHER, 100, OTHERS);
  return unused;
}

/* The other thread's stream comes first in one recording, and last in the other. */
static void record_in_child(const char *settings, const void *argument) {
  const bool others_first = argument != NULL;
  pthread_t thread;
  if (writer_start(settings) != 0) _exit(9);
  stream_t *s = writer_enter(RECORD_BLOCKS);
  if (!s) _exit(6);
  tick = writer_now(s->writer);
  writer_leave(s);
  if (others_first && (pthread_create(&thread, NULL, others, NULL) || pthread_join(thread, NULL)))
    _exit(5);
  give(MARKER, 0, 3);
  mark("loaded");
  give(MARKER, 3, 5);
  mark("served");
  mark("loaded"); /* the first one counts */
  give(MARKER, 8, 7);
  if (!others_first && (pthread_create(&thread, NULL, others, NULL) || pthread_join(thread, NULL)))
    _exit(5);
  _exit(0);
}

typedef struct told {
  uint64_t before, after; /* blocks of one stack, live at the window's start and at its end */
} told_t;

static told_t tell(reader_t *reader, const replay_options_t *window, uint32_t stack) {
  replay_t replay;
  told_t told = {0};
  assert_int_equal(replay_run(&replay, reader, window), 0);
  for (size_t i = 0; i < replay.stack_count; i++)
    if (replay.stacks[i].stack == stack)
      told = (told_t){replay.stacks[i].at_start.count, replay.stacks[i].live.count};
  replay_free(&replay);
  return told;
}

static void check(reader_t *reader, const replay_options_t *window, uint64_t before,
                  uint64_t after) {
  told_t told = tell(reader, window, MARKER);
  assert_int_equal(told.before, before);
  assert_int_equal(told.after, after);
}

static void window_begins_and_ends_at_markers(void **unused) {
  (void)unused;
  for (int others_first = 0; others_first < 2; others_first++) {
    reader_t *reader = recorded(record_in_child, others_first ? &tick : NULL);
    replay_options_t to = {.to_marker = "loaded"},
                     between = {.from_marker = "loaded", .to_marker = "served"},
                     from = {.from_marker = "served"};
    assert_int_equal(marker_find(reader, "loaded", &to.to_ns), 0);
    between.from_ns = between.to_ns = from.from_ns = to.to_ns;
    check(reader, &to, 0, 3);
    check(reader, &between, 3, 8);
    check(reader, &from, 8, 15);
    /* The next window begins where one ends, for the other thread's blocks as well. */
    told_t last = tell(reader, &to, OTHER), middle = tell(reader, &between, OTHER),
           first = tell(reader, &from, OTHER);
    assert_int_equal(last.after, middle.before);
    assert_int_equal(middle.after, first.before);
    assert_int_equal(first.after, OTHERS);
    reader_close(reader);
  }
}

static void window_to_an_earlier_marker_is_empty(void **unused) {
  (void)unused;
  reader_t *reader = recorded(record_in_child, NULL);
  check(reader, &(replay_options_t){.from_marker = "served", .to_marker = "loaded"}, 3, 3);
  check(reader, &(replay_options_t){.from_marker = "loaded", .to_marker = "loaded"}, 3, 3);
  reader_close(reader);
}

/* A window that begins or ends at a time contains all events of its tick. */
static void window_by_time_contains_the_tick(void **unused) {
  uint64_t ns;
  (void)unused;
  reader_t *reader = recorded(record_in_child, NULL);
  assert_int_equal(marker_find(reader, "loaded", &ns), 0);
  check(reader, &(replay_options_t){.from_ns = ns}, 0, 15);
  check(reader, &(replay_options_t){.to_ns = ns}, 0, 15);
  check(reader, &(replay_options_t){.from_ns = ns, .to_ns = ns, .to_marker = "loaded"}, 0, 3);
  check(reader, &(replay_options_t){.from_marker = "loaded", .to_ns = ns}, 3, 15);
  check(reader, &(replay_options_t){.from_ns = ns + 100000, .to_ns = ns, .to_marker = "loaded"}, 15,
        15);
  reader_close(reader);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(window_begins_and_ends_at_markers),
                                     cmocka_unit_test(window_to_an_earlier_marker_is_empty),
                                     cmocka_unit_test(window_by_time_contains_the_tick)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
