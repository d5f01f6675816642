/* SPDX-License-Identifier: MIT
 *
 * When too much CPU is used for too long: the rule in simulated time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "sensor/cpu/rules.h"

#define SECOND UINT64_C(1000000000)

static const cpu_rules_t rules = {.limit_permille = 800, .seconds_ns = 60 * SECOND};

typedef struct simulated {
  cpu_track_t track;
  uint64_t now_ns, cpu_ns;
  int episodes;
  cpu_episode_t last;
} simulated_t;

static void run(simulated_t *s, double share, int seconds) {
  for (int i = 0; i < seconds; i++) {
    s->now_ns += SECOND;
    s->cpu_ns += (uint64_t)(share * (double)SECOND);
    if (cpu_track_read(&s->track, &rules, s->now_ns, s->cpu_ns, &s->last)) s->episodes++;
  }
}

static void a_minute_above_the_limit_is_told_once(void **unused) {
  (void)unused;
  simulated_t s = {.now_ns = 5 * SECOND};
  run(&s, 0.1, 30);
  run(&s, 0.95, 61);
  assert_int_equal(s.episodes, 1);
  assert_int_equal(s.last.to_ns - s.last.from_ns, 60 * SECOND);
  assert_true(s.last.cpu_ns > 56 * SECOND && s.last.cpu_ns < 58 * SECOND);
  run(&s, 0.95, 58); /* cooling down */
  assert_int_equal(s.episodes, 1);
  run(&s, 0.95, 65);
  assert_int_equal(s.episodes, 2);
}

static void below_the_limit_nothing_is_told(void **unused) {
  (void)unused;
  simulated_t s = {.now_ns = 5 * SECOND};
  run(&s, 0.79, 1000);
  assert_int_equal(s.episodes, 0);
}

static void short_bursts_are_dropped(void **unused) {
  (void)unused;
  simulated_t s = {.now_ns = 5 * SECOND};
  for (int i = 0; i < 20; i++) {
    run(&s, 1, 10);
    run(&s, 0.1, 30);
  }
  assert_int_equal(s.episodes, 0);
}

static void a_pause_within_is_weighed(void **unused) {
  (void)unused;
  simulated_t s = {.now_ns = 5 * SECOND};
  run(&s, 1, 30);
  run(&s, 0.5, 10);
  run(&s, 1, 25);
  assert_int_equal(s.episodes, 1); /* 92 % on the whole */
}

static void a_gap_ends_an_episode(void **unused) {
  (void)unused;
  simulated_t s = {.now_ns = 5 * SECOND};
  run(&s, 1, 50);
  s.now_ns += 20 * SECOND; /* the machine slept */
  run(&s, 1, 50);
  assert_int_equal(s.episodes, 0);
  run(&s, 1, 15);
  assert_int_equal(s.episodes, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_minute_above_the_limit_is_told_once),
      cmocka_unit_test(below_the_limit_nothing_is_told), cmocka_unit_test(short_bursts_are_dropped),
      cmocka_unit_test(a_pause_within_is_weighed), cmocka_unit_test(a_gap_ends_an_episode)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
