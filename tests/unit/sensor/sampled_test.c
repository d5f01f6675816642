/* SPDX-License-Identifier: MIT
 *
 * Sampled blocks: the logarithm used for sampling against libm's; the table of sampled blocks when
 * it is much fuller than its first level, and while threads add and remove addresses.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "skip.h"
#include "sensor/malloc/sampled.h"

static void the_logarithm_is_close(void **unused) {
  (void)unused;
  double worst = 0;
  for (double x = 1e-16; x <= 1.0; x *= 1.0001) {
    double off = fabs(sampled_log(x) - log(x)) / fmax(1.0, fabs(log(x)));
    if (off > worst) worst = off;
  }
  print_message("largest error: %g\n", worst);
  assert_true(worst < 1e-5);
}

static void weights_are_close(void **unused) {
  (void)unused;
  static const uint64_t rates[] = {1, 4096, 524288, UINT64_C(1) << 40};
  for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
    for (uint64_t size = 1; size < UINT64_C(1) << 36; size = size * 3 / 2 + 1) {
      double wanted = (double)size / -expm1(-(double)size / (double)rates[r]);
      double off = fabs((double)sampled_weight(size, rates[r]) - wanted);
      assert_true(off <= 0.51 + wanted * 1e-12);
    }
  assert_int_equal(sampled_weight(0, 4096), sampled_weight(1, 4096));
}

static void a_table_finds_what_was_added(void **unused) {
  (void)unused;
  assert_false(sampled_forget(0x1000));
  sampled_restore(0x1000);
  sampled_restore(0x2000);
  assert_true(sampled_forget(0x1000));
  assert_false(sampled_forget(0x1000));
  assert_true(sampled_forget(0x2000));
}

enum { THREADS = 4 };

/* The addresses of a thread. */
static uint64_t each(void) { return (uint64_t)repeats(500000); }

/* Blocks of 48 bytes, in a heap per thread. */
static uint64_t nth(uint64_t thread, uint64_t i) {
  return UINT64_C(0x7f0000000010) + (thread << 26) + i * 48;
}

/* Adds all addresses; every second one is also removed and added again three times. */
static void *fill(void *thread) {
  uint64_t t = (uint64_t)(uintptr_t)thread, count = each(), wrong = 0;
  for (uint64_t i = 0; i < count; i++) {
    sampled_restore(nth(t, i));
    for (int k = 0; i % 2 && k < 3; k++) {
      wrong += !sampled_forget(nth(t, i));
      wrong += sampled_forget(nth(t, i));
      sampled_restore(nth(t, i));
    }
  }
  return (void *)(uintptr_t)wrong;
}

static void a_full_table_grows(void **unused) {
  (void)unused;
  pthread_t thread[THREADS];
  for (uintptr_t t = 0; t < THREADS; t++)
    assert_int_equal(pthread_create(&thread[t], NULL, fill, (void *)t), 0);
  for (int t = 0; t < THREADS; t++) {
    void *wrong;
    assert_int_equal(pthread_join(thread[t], &wrong), 0);
    assert_null(wrong);
  }
  uint64_t missing = 0, twice = 0, strange = 0;
  for (uint64_t t = 0; t < THREADS; t++)
    for (uint64_t i = 0; i < each(); i++) {
      strange += sampled_forget(nth(t, i) + 16);
      missing += !sampled_forget(nth(t, i));
      twice += sampled_forget(nth(t, i));
    }
  print_message("%llu addresses: %llu missing, %llu twice, %llu that were never there\n",
                (unsigned long long)(THREADS * each()), (unsigned long long)missing,
                (unsigned long long)twice, (unsigned long long)strange);
  assert_int_equal(missing + twice + strange, 0);
}

/* Otherwise events would be skipped that must be recorded, or at a rate that no longer holds. */
static void each_change_is_noticed(void **unused) {
  (void)unused;
  static shm_control_t control;
  static writer_t w;
  control.mode = RECORD_SAMPLED_BLOCKS;
  control.sample_bytes = 1 << 20;
  w.control = &control;
  w.cycles = true;
  assert_false(sampled_alone(&w));
  sampled_prepare(&w);
  assert_true(sampled_alone(&w) && w.until_sample > 0 && w.sample_bytes == 1 << 20);
  control.sample_bytes = 4096;
  control.rate_changes++;
  assert_false(sampled_alone(&w));
  sampled_prepare(&w);
  assert_true(sampled_alone(&w) && w.sample_bytes == 4096);
  control.mode |= RECORD_CALLS;
  assert_false(sampled_alone(&w));
  sampled_prepare(&w);
  assert_true(sampled_alone(&w));
  static const uint32_t others[] = {RECORD_BLOCKS, RECORD_SAMPLED_BLOCKS | RECORD_BLOCKS,
                                    RECORD_SAMPLED_BLOCKS | RECORD_LIVE, 0};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    control.mode = others[i];
    sampled_prepare(&w);
    assert_false(sampled_alone(&w));
  }
  memset(&w, 0, sizeof w); /* what a forked child finds: it must not read the control page */
  assert_false(sampled_alone(&w));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_logarithm_is_close), cmocka_unit_test(weights_are_close),
      cmocka_unit_test(a_table_finds_what_was_added), cmocka_unit_test(a_full_table_grows),
      cmocka_unit_test(each_change_is_noticed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
