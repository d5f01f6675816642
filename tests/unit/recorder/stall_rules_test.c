/* SPDX-License-Identifier: MIT
 *
 * When a turn is a stall, why, and whose: the rules in simulated time.
 *
 * A simulated thread does what a script says, a letter for every 10 ms: C on a CPU, r ready and
 * given none, S blocked, T stopped, F frozen by a cgroup; Z: nobody looks, and the thread is
 * blocked (a machine asleep); L: nobody looks, and the thread runs.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "sensor/stall/hot_path.h"
#include "sensor/stall/stall_label.h"
#include "sensor/stall/rules.h"
#include "recorder/monitor/thread_stats.h"

#define MS UINT64_C(1000000)

typedef struct run {
  uint64_t reported_ns; /* age at the report; 0: none */
  uint64_t own_ns;
  uint32_t samples;
} run_t;

typedef struct simulated {
  uint64_t now_ns, run_ns, runq_ns, unbooked_ns;
  char state;
  bool frozen, watched;
} simulated_t;

static void pass_ms(simulated_t *s, char letter) {
  s->frozen = letter == 'F';
  s->state = letter == 'C' || letter == 'r' || letter == 'L' ? 'R' : letter == 'T' ? 'T' : 'S';
  s->watched = letter != 'Z' && letter != 'L';
  s->now_ns += MS;
  if (letter == 'C' || letter == 'L') {
    s->run_ns += MS;
    s->runq_ns += s->unbooked_ns; /* the kernel books it when the thread gets its CPU */
    s->unbooked_ns = 0;
  } else if (letter == 'r') {
    s->unbooked_ns += MS;
  }
}

static run_t simulate(const char *script, uint64_t threshold_ms) {
  stall_rules_t rules = stall_rules_for(threshold_ms * MS);
  stall_iteration_t turn = {.began_ns = 1000 * MS, .threshold_ns = rules.threshold_ns};
  simulated_t s = {.now_ns = turn.began_ns};
  run_t run = {0};
  uint64_t due = s.now_ns + rules.tick_ns / 3;
  for (; *script; script++)
    for (int i = 0; i < 10; i++) {
      pass_ms(&s, *script);
      if (s.now_ns < due || !s.watched) continue;
      stall_poll_t look = {.now_ns = s.now_ns,
                           .late_ns = turn.polled ? s.now_ns - due : 0,
                           .state = s.state,
                           .frozen = s.frozen,
                           .run_ns = s.run_ns,
                           .runq_ns = s.runq_ns};
      unsigned todo = stall_iteration_poll(&turn, &rules, &look);
      if (todo & STALL_DO_SAMPLE) run.samples++;
      if (todo & STALL_DO_REPORT) run.reported_ns = s.now_ns - turn.began_ns;
      due = stall_iteration_next_poll_ns(&turn, &rules, s.now_ns);
    }
  run.own_ns = stall_iteration_active_ns(&turn, s.now_ns);
  return run;
}

#define TEN(x)     x x x x x x x x x x
#define HUNDRED(x) TEN(TEN(x))

static void assert_near(uint64_t value_ns, uint64_t wanted_ms, uint64_t off_ms) {
  if (value_ns + off_ms * MS < wanted_ms * MS || value_ns > (wanted_ms + off_ms) * MS)
    fail_msg("%.1f ms is not %llu ms", (double)value_ns / 1e6, (unsigned long long)wanted_ms);
}

static void a_turn_as_long_as_the_threshold_is_a_stall_in_time(void **unused) {
  (void)unused;
  static const uint64_t thresholds[] = {50, 100, 250, 400};
  for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
    uint64_t ms = thresholds[i];
    assert_near(simulate(HUNDRED("C"), ms).reported_ns, ms, ms / 10);
    assert_near(simulate(HUNDRED("S"), ms).reported_ns, ms, ms / 10);
  }
  assert_int_equal(simulate(TEN("C") TEN("C"), 250).reported_ns, 0);
  assert_true(simulate(TEN("C") TEN("C"), 250).samples >= 6); /* before the threshold */
}

static void a_stopped_program_does_not_stall(void **unused) {
  (void)unused;
  assert_int_equal(simulate("CC" HUNDRED("T") "CC", 250).reported_ns, 0);
  assert_int_equal(simulate("CC" HUNDRED("F") "CC", 250).reported_ns, 0);
  assert_near(simulate("CC" HUNDRED("T") "CC", 250).own_ns, 40, 30);
  assert_int_not_equal(simulate("CC" HUNDRED("T") TEN("CCC"), 250).reported_ns, 0);
}

static void a_starved_program_does_not_stall(void **unused) {
  (void)unused;
  assert_int_equal(simulate("C" HUNDRED("r") "C", 250).reported_ns, 0);
  assert_int_equal(simulate(TEN("Crrrrrrrrr"), 250).reported_ns, 0); /* a tenth of a CPU */
  /* A long stop before it does not hide the waits for a CPU. */
  assert_int_equal(simulate(HUNDRED("TTT") TEN("rrrC"), 250).reported_ns, 0);
  assert_near(simulate(HUNDRED("Crrr"), 250).reported_ns, 1000, 120);
}

static void a_machine_that_slept_is_no_stall(void **unused) {
  (void)unused;
  assert_int_equal(simulate("SS" HUNDRED("Z") "SS", 250).reported_ns, 0);
  assert_int_not_equal(simulate("CC" HUNDRED("L") "CC", 250).reported_ns,
                       0);                                           /* it ran: it is one */
  assert_int_equal(simulate(HUNDRED("L") "CC", 250).reported_ns, 0); /* nobody saw that it ran */
  assert_int_not_equal(simulate(HUNDRED("L") HUNDRED("C"), 250).reported_ns, 0);
}

static void long_stalls_are_sampled_ever_more_seldom(void **unused) {
  (void)unused;
  run_t short_one = simulate(HUNDRED("C"), 100), long_one = simulate(HUNDRED(TEN("C")), 100);
  assert_true(long_one.samples < 4 * short_one.samples);
}

/* ---- labels ------------------------------------------------------------------------------- */

static stall_label_t label_of(char state, const char *call, double ran, bool mutex, uint64_t minor,
                              uint64_t major, uint64_t user, uint64_t system) {
  stall_totals_t totals = {0};
  stall_observation_t seen = {.state = state,
                              .call = call,
                              .is_mutex = mutex,
                              .minor_faults = minor,
                              .major_faults = major,
                              .user_ticks = user,
                              .system_ticks = system};
  for (int i = 0; i < 10; i++)
    stall_totals_add(&totals, &seen, 100 * MS, (uint64_t)(ran * 100 * (double)MS));
  return stall_label_of(&totals);
}

/* The rows are those measured: a second of each kind. */
static void causes_are_told_apart(void **unused) {
  (void)unused;
  assert_int_equal(label_of('R', "", 0.98, false, 0, 0, 98, 0), STALL_ON_CPU);
  assert_int_equal(label_of('R', "", 0.98, false, 0, 0, 1, 97), STALL_ON_CPU_KERNEL);
  assert_int_equal(label_of('R', "", 0.92, false, 122289, 0, 16, 76), STALL_MINOR_FAULTS);
  assert_int_equal(label_of('D', "", 0.46, false, 39, 15525, 2, 40), STALL_MAJOR_FAULTS);
  assert_int_equal(label_of('D', "fsync", 0.2, false, 0, 0, 0, 20), STALL_DISK);
  assert_int_equal(label_of('S', "futex", 0, true, 0, 0, 0, 0), STALL_LOCK);
  assert_int_equal(label_of('S', "read", 0, false, 0, 0, 0, 0), STALL_BLOCKED);
  assert_int_equal(label_of('R', "", 0.016, false, 0, 0, 1, 0), STALL_STARVED);
  stall_totals_t nothing = {0};
  assert_int_equal(stall_label_of(&nothing), STALL_UNKNOWN);
}

/* ---- culprits ----------------------------------------------------------------------------- */

enum { MAIN = 1, HANDLER, HOT, COLD, LEAF_A, LEAF_B, LATE };

#define PATH(w, ...)                                                                               \
  { (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), w }

static void assert_culprit(const hot_path_stack_t *paths, size_t count, uint32_t wanted,
                           double share) {
  bool set[3];
  hot_path_t c = hot_path_find(paths, count, set);
  assert_true(c.depth >= 0);
  assert_int_equal(paths[c.stack].functions[c.depth], wanted);
  assert_true((double)c.weight / (double)c.total > share - 0.005);
  assert_true((double)c.weight / (double)c.total < share + 0.005);
}

static void the_culprit_owns_most_of_the_time(void **unused) {
  (void)unused;
  const hot_path_stack_t late[] = {PATH(230, MAIN, HANDLER, HOT), PATH(20, MAIN, HANDLER, LATE)};
  assert_culprit(late, 2, HOT, 0.92);
  const hot_path_stack_t split[] = {PATH(30, MAIN, HANDLER, HOT, LEAF_A),
                                    PATH(30, MAIN, HANDLER, HOT, LEAF_B),
                                    PATH(40, MAIN, HANDLER, COLD)};
  assert_culprit(split, 3, HOT, 0.6); /* neither leaf has half, what called both has */
  const hot_path_stack_t recursive[] = {PATH(60, MAIN, HOT, HOT, HOT), PATH(40, MAIN, HOT)};
  assert_culprit(recursive, 2, HOT, 0.6);
  const hot_path_stack_t spread[] = {PATH(30, MAIN, LEAF_A), PATH(30, MAIN, LEAF_B),
                                     PATH(40, MAIN, COLD)};
  assert_culprit(spread, 3, MAIN, 1);
  assert_int_equal(hot_path_find(NULL, 0, NULL).depth, -1);
}

/* ---- /proc -------------------------------------------------------------------------------- */

static void what_proc_says_is_read(void **unused) {
  (void)unused;
  thread_stats_t f = {0};
  assert_true(
      thread_stats_parse_stat("7 (a) b (c) S 1 2 3 4 5 6 70 8 90 10 11 12 13 14 15 16 17 18 19 20 "
                              "21 22 23 24 25 26 27 4194304 29 30",
                              &f));
  assert_int_equal(f.state, 'S');
  assert_int_equal(f.minor_faults, 70);
  assert_int_equal(f.major_faults, 90);
  assert_int_equal(f.user_ticks, 11);
  assert_int_equal(f.system_ticks, 12);
  assert_true(thread_stats_parse_schedstat("123 456 7\n", &f));
  assert_int_equal(f.run_ns, 123);
  assert_int_equal(f.runq_ns, 456);
  assert_int_equal(f.slices, 7);
  static const char *const broken[] = {"",       "7",       "7 (x",       "7 (x)",
                                       "7 (x) ", "7 (x) S", "7 (x) S 1 2"};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
    assert_false(thread_stats_parse_stat(broken[i], &f));
  assert_false(thread_stats_parse_schedstat("1 2", &f));
}

static uint64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

/* What a kernel without CONFIG_SCHED_INFO has in place of schedstat. */
static void a_kernel_that_does_not_count_has_ticks(void **unused) {
  (void)unused;
  static const char *const said[] = {"0 0 0\n", ""};
  while (cpu_ns() < 100 * MS) {
  }
  for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
    thread_stats_t f;
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs(said[i], file);
    fflush(file);
    uint64_t before = cpu_ns();
    assert_true(thread_stats_read_use(fileno(file), getpid(), getpid(), &f));
    uint64_t after = cpu_ns();
    assert_in_range(f.run_ns, before - 30 * MS, after + 30 * MS);
    assert_int_equal(f.runq_ns | f.slices, 0);
    assert_false(thread_stats_read_use(fileno(file), getpid(), 0x7ffffff0, &f));
    fclose(file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_turn_as_long_as_the_threshold_is_a_stall_in_time),
      cmocka_unit_test(a_stopped_program_does_not_stall),
      cmocka_unit_test(a_starved_program_does_not_stall),
      cmocka_unit_test(a_machine_that_slept_is_no_stall),
      cmocka_unit_test(long_stalls_are_sampled_ever_more_seldom),
      cmocka_unit_test(causes_are_told_apart),
      cmocka_unit_test(the_culprit_owns_most_of_the_time),
      cmocka_unit_test(a_kernel_that_does_not_count_has_ticks),
      cmocka_unit_test(what_proc_says_is_read)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
