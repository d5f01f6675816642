/* SPDX-License-Identifier: MIT
 *
 * Which threads are event loops, and which of their waits are part of an iteration, from what each
 * poll finds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "recorder/monitor/outside/loops.h"

enum { OUTER = 0x9000, SITE = 0x8000, HANDLER = 0x7000 };

typedef struct simulated {
  outside_loop_t loop;
  outside_poll_t poll;
} simulated_t;

static void step(simulated_t *s, bool is_blocked, bool is_event_wait, uint64_t sp) {
  s->poll.time += 10;
  s->poll.is_blocked = is_blocked;
  s->poll.is_event_wait = is_event_wait;
  s->poll.sp = sp;
  outside_loop_step(&s->loop, &s->poll);
}

static void waits(simulated_t *s, uint64_t sp) {
  s->poll.slices++;
  step(s, true, true, sp);
}

static void blocks(simulated_t *s, uint64_t sp) {
  s->poll.slices++;
  step(s, true, false, sp);
}

static void runs(simulated_t *s) {
  s->poll.slices++;
  step(s, false, false, 0);
}

static void a_wait_below_the_loop_is_an_iteration(void **unused) {
  (void)unused;
  simulated_t s = {.poll.slices = 1};
  waits(&s, SITE);
  assert_int_equal(s.loop.visits, 1);
  waits(&s, SITE);
  assert_int_equal(s.loop.began, 0);
  blocks(&s, HANDLER);
  uint64_t began = s.poll.time;
  assert_int_equal(s.loop.began, began);
  step(&s, true, false, HANDLER); /* the same wait */
  assert_false(outside_loop_has_run(&s.loop, s.poll.slices));
  assert_int_equal(s.loop.began, began);
  runs(&s);
  assert_int_equal(s.loop.began, 0);
  blocks(&s, HANDLER); /* another wait */
  assert_int_equal(s.loop.began, s.poll.time);
  waits(&s, SITE);
  assert_int_equal(s.loop.began, 0);
}

static void other_threads_are_no_loops(void **unused) {
  (void)unused;
  simulated_t once = {.poll.slices = 1}, never = once, same = once;
  waits(&once, SITE);
  blocks(&once, HANDLER);
  assert_int_equal(once.loop.began, 0);
  for (int i = 0; i < 5; i++)
    blocks(&never, HANDLER);
  assert_int_equal(never.loop.began, 0);
  waits(&same, SITE); /* one long wait, polled often */
  for (int i = 0; i < 5; i++)
    step(&same, true, true, SITE);
  blocks(&same, HANDLER);
  assert_int_equal(same.loop.began, 0);
}

static void a_thread_that_rests_outside_its_wait_is_idle(void **unused) {
  (void)unused;
  simulated_t s = {.poll.slices = 1};
  waits(&s, SITE);
  waits(&s, SITE);
  blocks(&s, OUTER); /* a worker that waits for work, and polls while it works */
  assert_int_equal(s.loop.began, 0);
}

static void event_waits_inside_an_iteration_are_no_stalls(void **unused) {
  (void)unused;
  simulated_t s = {.poll.slices = 1};
  waits(&s, SITE);
  waits(&s, SITE);
  waits(&s, HANDLER);
  assert_int_equal(s.loop.began, 0);
  assert_int_equal(s.loop.site, SITE);
  blocks(&s, HANDLER);
  assert_int_not_equal(s.loop.began, 0);
  waits(&s, OUTER); /* the loop is further out */
  blocks(&s, HANDLER);
  assert_int_equal(s.loop.began, 0);
}

static void without_counts_of_slices_nothing_is_known(void **unused) {
  (void)unused;
  simulated_t s = {.poll.slices = 0};
  for (int i = 0; i < 4; i++)
    step(&s, true, true, SITE);
  step(&s, true, false, HANDLER);
  step(&s, true, false, HANDLER);
  assert_true(outside_loop_has_run(&s.loop, 0));
  assert_int_equal(s.loop.began, s.poll.time);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_wait_below_the_loop_is_an_iteration),
      cmocka_unit_test(other_threads_are_no_loops),
      cmocka_unit_test(a_thread_that_rests_outside_its_wait_is_idle),
      cmocka_unit_test(event_waits_inside_an_iteration_are_no_stalls),
      cmocka_unit_test(without_counts_of_slices_nothing_is_known),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
