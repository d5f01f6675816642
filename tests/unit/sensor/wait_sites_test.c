/* SPDX-License-Identifier: MIT
 *
 * Which wait is a loop's own: the rule on made-up threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "sensor/stall/stall.h"

#define LOOP   ((wait_site_t){0x1000, 0x7000})
#define CLIENT ((wait_site_t){0x2000, 0x6000}) /* deeper: called from a handler */
#define DIALOG ((wait_site_t){0x1000, 0x5000}) /* the loop's own function, from a handler */
#define OTHER  ((wait_site_t){0x3000, 0x7100}) /* further out: the program's next loop */

typedef struct thread {
  wait_candidate_t candidate;
  wait_site_t site;
  uint32_t iterations;
} thread_t;

static wait_kind_t wait_at(thread_t *t, wait_site_t place) {
  if (t->site.site == place.site && t->site.frame == place.frame) {
    t->iterations++;
    return WAIT_SITE;
  }
  wait_kind_t kind = wait_classify(&t->candidate, t->site, t->iterations, place);
  if (kind == WAIT_SITE) t->site = place;
  if (kind != WAIT_INSIDE) t->candidate.iterations = ++t->iterations;
  return kind;
}

static thread_t with_wait_site(void) {
  thread_t t = {0};
  for (int i = 0; i < SITE_WAITS; i++)
    (void)wait_at(&t, LOOP);
  assert_int_equal(t.site.site, LOOP.site);
  return t;
}

static void a_place_visited_often_is_the_wait_site(void **unused) {
  (void)unused;
  thread_t t = {0};
  assert_int_equal(wait_at(&t, LOOP), WAIT_INSIDE);
  assert_int_equal(wait_at(&t, CLIENT), WAIT_INSIDE);
  assert_int_equal(wait_at(&t, LOOP), WAIT_INSIDE);
  assert_int_equal(wait_at(&t, LOOP), WAIT_INSIDE);
  assert_int_equal(wait_at(&t, LOOP), WAIT_SITE);
}

static void a_client_that_waits_in_a_handler_is_part_of_the_iteration(void **unused) {
  (void)unused;
  thread_t t = with_wait_site();
  for (int iteration = 0; iteration < 100; iteration++) {
    assert_int_equal(wait_at(&t, LOOP), WAIT_SITE);
    for (int i = 0; i < NESTED_WAITS - 1; i++)
      assert_int_equal(wait_at(&t, CLIENT), WAIT_INSIDE);
  }
}

static void a_dialog_that_goes_round_and_round_is_a_loop(void **unused) {
  (void)unused;
  thread_t t = with_wait_site();
  (void)wait_at(&t, LOOP);
  for (int i = 0; i < NESTED_WAITS - 1; i++)
    assert_int_equal(wait_at(&t, DIALOG), WAIT_INSIDE);
  for (int i = 0; i < 50; i++)
    assert_int_equal(wait_at(&t, DIALOG), WAIT_IDLE);
  assert_int_equal(wait_at(&t, LOOP), WAIT_SITE);
  assert_int_equal(wait_at(&t, DIALOG), WAIT_INSIDE); /* a new iteration, a new count */
}

static void the_next_loop_of_a_program_becomes_the_wait_site(void **unused) {
  (void)unused;
  thread_t t = with_wait_site();
  for (int i = 0; i < SITE_WAITS - 1; i++)
    assert_int_equal(wait_at(&t, OTHER), WAIT_IDLE);
  assert_int_equal(wait_at(&t, OTHER), WAIT_SITE);
  assert_int_equal(t.site.frame, OTHER.frame);
  assert_int_equal(wait_at(&t, LOOP), WAIT_INSIDE); /* now deeper than the wait site */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_place_visited_often_is_the_wait_site),
      cmocka_unit_test(a_client_that_waits_in_a_handler_is_part_of_the_iteration),
      cmocka_unit_test(a_dialog_that_goes_round_and_round_is_a_loop),
      cmocka_unit_test(the_next_loop_of_a_program_becomes_the_wait_site)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
