/* SPDX-License-Identifier: MIT
 *
 * NOPs at a function's entry that become a jump to a trampoline and NOPs again, also while threads
 * run through them, whose arguments and results stay what they are in every register.
 */
#include <pthread.h>
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

#include "arch/patch.h"
#include "hook/patch.h"
#include "image/list.h"
#include "os/os.h"
#include "sensor/trace/code.h"
#include "skip.h"
#include "dlopen_events.h"

#if defined(__x86_64__)
#define ROOM __attribute__((patchable_function_entry(5)))
#define LESS __attribute__((patchable_function_entry(4)))
#else
#define ROOM __attribute__((patchable_function_entry(2)))
#define LESS __attribute__((patchable_function_entry(0)))
#endif

/* ---- functions ------------------------------------------------------------------------------ */

ROOM APART static long add(long a, long b) { return a + b; }
LESS APART static long little(long a, long b) { return a * b; }

/* Eight integers, eight doubles, and more on the stack. */
ROOM APART static double all_of_them(long a, long b, long c, long d, long e, long f, double p,
                                     double q, double r, double s, double t, double u, double v,
                                     double w, long g, long h, double x) {
  double sum = p + 2 * q + 3 * r + 4 * s + 5 * t + 6 * u + 7 * v + 8 * w + 9 * x;
  return sum + (double)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h);
}

static double ask_all(void) {
  return all_of_them(1, 2, 3, 4, 5, 6, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 7, 8, 9.5);
}

/* ---- patching -------------------------------------------------------------------------------- */

#define FUNCTIONS 2

static trampoline_t own[FUNCTIONS];
static patch_t patches[FUNCTIONS];
static patch_stubs_t stubs;

static uint64_t place_of(const void *function) {
  const uint8_t *code = function;
  return (uint64_t)(uintptr_t)code + patch_mark_bytes(code);
}

static int set_up(void **state) {
  static const void *const functions[] = {(const void *)(uintptr_t)add,
                                          (const void *)(uintptr_t)all_of_them};
  (void)state;
  stubs = (patch_stubs_t){.low = UINT64_MAX, .count = FUNCTIONS};
  for (int i = 0; i < FUNCTIONS; i++) {
    uint64_t place = place_of(functions[i]);
    assert_true(patch_look(place, &patches[i]));
    if (place < stubs.low) stubs.low = place;
    if (place > stubs.high) stubs.high = place;
  }
  bool mapped = false;
  for (uint32_t try = 0; try < PATCH_TRIES && !mapped && patch_stubs_place(&stubs, try); try++)
    mapped = stubs.start && os_map_at(stubs.start, stubs.bytes);
  assert_true(mapped && trampoline_ready() == NULL);
  for (uint32_t i = 0; i < FUNCTIONS; i++) {
    own[i].function = (uint64_t)(uintptr_t)functions[i];
    own[i].target = patch_stub(&stubs, i, &patches[i], (uint64_t)(uintptr_t)&own[i],
                               trampoline_address(TRAMPOLINE_BODY));
    trampoline_set(&own[i], &counting);
  }
  return os_protect(stubs.start, stubs.start + stubs.bytes, 5);
}

static void switch_all(bool on) {
  patcher_t patcher = {.maps = -1};
  for (uint32_t step = 0; step < PATCH_STEPS; step++) {
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
      assert_true(patch_open(&patcher, patches[i].place));
      patch_step(&stubs, i, &patches[i], on, step);
    }
    (void)os_sync_code();
  }
  patch_end(&patcher);
}

static void calls_are_told_while_it_is_patched(void **state) {
  uint8_t before_it[8];
  reset(state);
  memcpy(before_it, (const void *)(uintptr_t)patches[0].place, sizeof before_it);
  assert_int_equal(add(1, 2), 3);
  double expected = ask_all();
  assert_int_equal(begun, 0);
  switch_all(true);
  assert_int_equal(add(1, 2), 3);
  assert_true(ask_all() == expected);
  assert_int_equal(begun, 2);
  assert_int_equal(told(CALL_RETURNED), 2);
  switch_all(false);
  assert_memory_equal(before_it, (const void *)(uintptr_t)patches[0].place, sizeof before_it);
  assert_int_equal(add(1, 2), 3);
  assert_int_equal(begun, 2);
}

static void too_little_room_is_noticed(void **state) {
  patch_t patch;
  (void)state;
  assert_int_equal(little(2, 3), 6);
  assert_false(patch_look(place_of((const void *)(uintptr_t)little), &patch));
}

/* The first two bytes of one NOP are written by one store: other processors must fetch both or
 * neither, which is so inside an aligned word. */
static void two_bytes_in_two_words_are_left_alone(void **state) {
#if defined(__x86_64__)
  static const uint8_t nop_5[] = {0x0f, 0x1f, 0x44, 0, 0};
  static _Alignas(64) uint8_t code[128];
  (void)state;
  for (uint32_t at = 0; at < 64; at++) {
    patch_t patch;
    memset(code, 0xcc, sizeof code);
    memcpy(code + at, nop_5, sizeof nop_5);
    assert_int_equal(patch_look((uint64_t)(uintptr_t)(code + at), &patch), at % 8 != 7);
    memset(code + at, 0x90, 5); /* each of these is written by itself */
    assert_true(patch_look((uint64_t)(uintptr_t)(code + at), &patch));
  }
#else
  (void)state;
  SKIP_BECAUSE("instructions are aligned words here");
#endif
}

/* ---- threads --------------------------------------------------------------------------------- */

#define THREADS 8
static int done;

static void *run(void *wrong) {
  double expected = ask_all();
  while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
    for (int i = 0; i < 100; i++)
      if (ask_all() != expected || add(i, -i) != 0)
        __atomic_fetch_add((long *)wrong, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void threads_run_through_the_change(void **state) {
  pthread_t threads[THREADS];
  long wrong = 0;
  (void)state;
  if (!os_sync_code()) SKIP_BECAUSE("this kernel has no membarrier(2) for code");
  reset(state);
  __atomic_store_n(&done, 0, __ATOMIC_RELAXED);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run, &wrong), 0);
  for (int i = 0; i < repeats(300) || i % 2 || !__atomic_load_n(&begun, __ATOMIC_RELAXED); i++) {
    switch_all(i % 2 == 0);
    usleep((useconds_t)(i % 7 * 300));
  }
  __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(wrong, 0);
  assert_int_equal(begun, all_ended());
}

/* ---- requests that cross ----------------------------------------------------------------------
 */

static void *switches_on(void *left) {
  (void)code_switch(true, "", "");
  __atomic_store_n((int *)left, 1, __ATOMIC_SEQ_CST);
  return NULL;
}

static bool is_unpatched(void) {
  const void *code = (const void *)(uintptr_t)patches[0].place;
  return memcmp(patches[0].before, code, sizeof patches[0].before) == 0;
}

/* The one that came last counts, also when it came while another one is carried out: which has
 * begun when the first place is patched, and is over when the thread says so. With one CPU only a
 * look that comes after a sleep, whose end takes the CPU from the thread, may find it at work. */
static void the_last_request_counts(void **state) {
  (void)state;
  int crossed = 0;
  if (!os_sync_code()) SKIP_BECAUSE("this kernel has no membarrier(2) for code");
  int rounds = 0;
  for (; rounds < repeats(200) || crossed <= 10; rounds++) {
    pthread_t thread;
    int left = 0;
    assert_int_equal(pthread_create(&thread, NULL, switches_on, &left), 0);
    while (is_unpatched()) { /* it changes from elsewhere */
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
      if (rounds % 2) nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    }
    crossed += !__atomic_load_n(&left, __ATOMIC_SEQ_CST);
    (void)code_switch(false, "", "");
    pthread_join(thread, NULL);
    assert_true(is_unpatched());
  }
  printf("  %d of %d crossed\n", crossed, rounds);
  (void)code_switch(true, "", "");
  assert_false(is_unpatched());
  (void)code_switch(false, "", "");
  assert_true(is_unpatched());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_are_told_while_it_is_patched),
      cmocka_unit_test(too_little_room_is_noticed),
      cmocka_unit_test(two_bytes_in_two_words_are_left_alone),
      cmocka_unit_test(threads_run_through_the_change),
      cmocka_unit_test(the_last_request_counts),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
