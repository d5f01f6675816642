/* SPDX-License-Identifier: MIT
 *
 * A window's last tick: a block that one thread frees and another is given in the same tick is the
 * other's at its end, whichever stream stands first in the recording and whatever comes right
 * after.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "analysis/malloc/replay.h"
#include "record/writer.h"
#include "record/event.h"
#include "recorded.h"
#include "reader/merge.h"

#define PLACE   UINT64_C(0x7f0000000000)
#define ANOTHER UINT64_C(0x7f0000001000)

enum { FIRST = 1, SECOND = 2, OTHER = 3 }; /* stacks */
enum { FREES, GIVES, GOES_ON, THREADS };

static uint64_t tick;

static uint64_t now(void) {
  stream_t *s = writer_enter(RECORD_BLOCKS);
  if (!s) _exit(6);
  uint64_t time = writer_now(s->writer);
  writer_leave(s);
  return time;
}

static void give(uint64_t time, uint64_t address, uint32_t stack) {
  stream_t *s = writer_enter(RECORD_BLOCKS);
  if (!s || !event_put_new(s, EVENT_MALLOC, time, address, 10, stack)) _exit(8);
  writer_leave(s);
}

static void give_back(uint64_t time, uint64_t address) {
  stream_t *s = writer_enter(RECORD_BLOCKS);
  if (!s || !event_put_free(s, time, address, FIRST)) _exit(7);
  writer_leave(s);
}

static void act(uintptr_t what) {
  if (what == FREES) give_back(tick, PLACE);
  if (what == GIVES) give(tick, PLACE, SECOND);
  for (unsigned i = 1; what == GOES_ON && i <= 2 * MERGE_DEFER_TICKS; i++)
    give(tick + i, ANOTHER + 64 * i, OTHER);
}

static sem_t opened, go_on;

/* A stream's times begin with its first event. */
static void *run(void *what) {
  give(now(), ANOTHER - 64 * (1 + (uintptr_t)what), OTHER);
  sem_post(&opened);
  sem_wait(&go_on);
  act((uintptr_t)what);
  return NULL;
}

/* The threads' streams stand in the recording in this ORDER. */
static void record_in_child(const char *settings, const void *argument) {
  const uintptr_t *order = argument;
  pthread_t threads[THREADS];
  if (writer_start(settings) != 0 || sem_init(&opened, 0, 0) || sem_init(&go_on, 0, 0)) _exit(9);
  give(now(), PLACE, FIRST);
  for (int i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, run, (void *)order[i])) _exit(5);
    sem_wait(&opened);
  }
  tick = now() + 1;
  for (int i = 0; i < THREADS; i++)
    sem_post(&go_on);
  for (int i = 0; i < THREADS; i++)
    if (pthread_join(threads[i], NULL)) _exit(5);
  _exit(0);
}

/* When the block was given to the second one. */
static uint64_t moment(reader_t *reader) {
  uint64_t ns = 0;
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  assert_non_null(merge);
  while (!ns && (e = merge_next(merge)))
    if (e->stack == SECOND) ns = reader_ns(reader, e->time);
  merge_close(merge);
  assert_true(ns > 0);
  return ns;
}

static void check(reader_t *reader) {
  replay_t replay;
  const replay_options_t window = {.to_ns = moment(reader)};
  assert_int_equal(replay_run(&replay, reader, &window), 0);
  assert_int_equal(replay.live.count, 1 + THREADS);
  assert_int_equal(replay.events, 3 + THREADS);
  assert_int_equal(replay.address_reuses + replay.unknown_frees + replay.double_frees, 0);
  const live_block_t *block = live_set_find(&replay.blocks, PLACE);
  assert_non_null(block);
  assert_int_equal(replay.stacks[block->stack].stack, SECOND);
  replay_free(&replay);
}

static void the_last_tick_is_whole(void **unused) {
  static const uintptr_t orders[][THREADS] = {{FREES, GIVES, GOES_ON}, {FREES, GOES_ON, GIVES},
                                              {GIVES, FREES, GOES_ON}, {GIVES, GOES_ON, FREES},
                                              {GOES_ON, FREES, GIVES}, {GOES_ON, GIVES, FREES}};
  (void)unused;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    reader_t *reader = recorded(record_in_child, orders[i]);
    check(reader);
    reader_close(reader);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_last_tick_is_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
