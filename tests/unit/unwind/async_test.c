/* SPDX-License-Identifier: MIT
 *
 * Swift's async frames, compiled by clang: both walks, and frame pointers with other tags.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "skip.h"
#include "sonde/stack.h"
#include "sonde/thread.h"

typedef struct context {
  struct context *parent;
  void (*resume)(void);
  void (*call_back)(void *argument);
  void *argument;
} async_context_t;

static void (*run_async)(async_context_t *context);
static uintptr_t async_inner, async_outer;

static void resumes_first(void) {}
static void resumes_second(void) {}

typedef struct identified {
  uint32_t id;
  uintptr_t pcs[64];
  int count;
} identified_t;

static __attribute__((noinline)) void identify(void *argument) {
  identified_t *out = argument;
  assert_int_equal(sonde_stack_id(&out->id), 0);
  __asm__ volatile("");
}

/* The contexts are made anew, because run_async changes them. */
static __attribute__((noinline)) void identify_in_async(identified_t *out) {
  async_context_t first = {NULL, NULL, NULL, NULL};
  async_context_t inner = {&first, resumes_first, identify, out};
  async_context_t outer = {&inner, resumes_first, NULL, NULL};
  run_async(&outer);
  out->count = sonde_stack_of_id(out->id, out->pcs, 64);
}

static void test_ids(void **state) {
  identified_t async, plain;
  (void)state;
  assert_int_equal(sonde_stack_async(SONDE_ASYNC_DETECT), SONDE_EINVAL);
  assert_int_equal(sonde_stack_async(SONDE_ASYNC_FOLLOW), 0);
  for (int i = 0; i < 3; i++) { /* stacks that a thread predicts, too */
    identify_in_async(&async);
    assert_int_equal(async.count, 3);
    assert_true(async.pcs[1] - 1 - async_inner < 64);
    assert_int_equal(async.pcs[2], (uintptr_t)resumes_first + 1);
    identify(&plain);
    plain.count = sonde_stack_of_id(plain.id, plain.pcs, 64);
    assert_true(plain.count > 3);
    assert_true(plain.pcs[0] - (uintptr_t)identify < (is_sanitized() ? 1024 : 128));
  }
  assert_int_equal(sonde_stack_async(SONDE_ASYNC_FOLLOW), SONDE_EBUSY);
}

typedef struct seen {
  sonde_async_t async;
  int skip, max;
  uintptr_t pcs[64];
  sonde_capture_t capture;
} seen_t;

static __attribute__((noinline)) void call_back(void *argument) {
  seen_t *seen = argument;
  seen->capture = (sonde_capture_t){.pcs = seen->pcs,
                                    .max = seen->max ? seen->max : 64,
                                    .skip = seen->skip,
                                    .async = seen->async};
  sonde_capture(&seen->capture);
  /* No tail call: the frame must be visible. */
  __asm__ volatile("");
}

static __attribute__((noinline)) void run(seen_t *seen) {
  async_context_t second = {NULL, NULL, call_back, seen};
  async_context_t first = {&second, resumes_second, call_back, seen};
  async_context_t inner = {&first, resumes_first, call_back, seen};
  async_context_t outer = {&inner, resumes_first, NULL, NULL};
  run_async(&outer);
  __asm__ volatile("");
}

/* The index in SEEN of the first pc in [START, START + SIZE); -1 if there is none. */
static int place_in(const seen_t *seen, uintptr_t start, uintptr_t size) {
  for (int i = 0; i < seen->capture.count; i++)
    if (seen->pcs[i] - 1 - start < size) return i;
  return -1;
}

static void test_the_thread_stack(void **state) {
  seen_t ignoring = {.async = SONDE_ASYNC_IGNORE}, noticing = {.async = SONDE_ASYNC_DETECT};
  (void)state;
  run(&ignoring);
  run(&noticing);
  assert_int_equal(ignoring.capture.status, SONDE_STACK_COMPLETE);
  assert_int_equal(noticing.capture.status, SONDE_STACK_COMPLETE);
  assert_false(ignoring.capture.flags & SONDE_FLAG_ASYNC);
  assert_true(noticing.capture.flags & SONDE_FLAG_ASYNC);
  assert_int_equal(noticing.capture.async_task, 0);
  assert_int_equal(ignoring.capture.count, noticing.capture.count);
  int inner = place_in(&ignoring, async_inner, 64), outer = place_in(&ignoring, async_outer, 64);
  int caller = place_in(&ignoring, (uintptr_t)run, is_sanitized() ? 2048 : 256);
  assert_int_equal(inner, 1);
  /* An ordinary function is between them. */
  assert_int_equal(outer, 3);
  assert_int_equal(caller, 5);
}

static void test_the_async_calls(void **state) {
  seen_t seen = {.async = SONDE_ASYNC_FOLLOW};
  (void)state;
  run(&seen);
  assert_true(seen.capture.flags & SONDE_FLAG_ASYNC);
  assert_int_equal(seen.capture.status, SONDE_STACK_COMPLETE);
  assert_int_equal(seen.capture.count, 4);
  assert_int_equal(place_in(&seen, async_inner, 64), 1);
  assert_int_equal(seen.pcs[2], (uintptr_t)resumes_first + 1);
  assert_int_equal(seen.pcs[3], (uintptr_t)resumes_second + 1);
}

static void test_limits(void **state) {
  seen_t seen = {.async = SONDE_ASYNC_FOLLOW, .max = 3},
         skipping = {.async = SONDE_ASYNC_FOLLOW, .skip = 3};
  (void)state;
  run(&seen);
  assert_int_equal(seen.capture.status, SONDE_STACK_TRUNCATED);
  assert_int_equal(seen.capture.count, 3);
  run(&skipping);
  assert_int_equal(skipping.capture.count, 1);
  assert_int_equal(skipping.pcs[0], (uintptr_t)resumes_second + 1);
}

/* A stack made by hand, with one async frame whose saved frame pointer has TAG in bits 63:60. */
static void test_tags(void **state) {
  static uint64_t stack[64];
  static async_context_t last = {NULL, resumes_second, NULL, NULL};
  seen_t real = {.async = SONDE_ASYNC_IGNORE};
  uintptr_t pcs[8];
  (void)state;
  run(&real);
  int inner = place_in(&real, async_inner, 64), between = inner + 1;
  for (uint64_t tag = 0; tag < 16; tag++) {
    memset(stack, 0, sizeof stack);
    uint64_t frame = (uint64_t)(uintptr_t)&stack[16], outer = (uint64_t)(uintptr_t)&stack[32];
    stack[15] = (uint64_t)(uintptr_t)&last;
    stack[16] = outer | tag << 60;
    /* Its rule needs the frame pointer again. */
    stack[17] = real.pcs[between];
    stack[33] = 0;
    sonde_capture_t capture = {.pcs = pcs,
                               .max = 8,
                               .async = SONDE_ASYNC_FOLLOW,
                               .pc = real.pcs[inner],
                               .sp = (uintptr_t)&stack[12],
                               .fp = frame};
    int count = sonde_capture(&capture);
    if (tag == 1) {
      assert_true(capture.flags & SONDE_FLAG_ASYNC);
      assert_int_equal(count, 2);
      assert_int_equal(pcs[1], (uintptr_t)resumes_second + 1);
    } else {
      assert_false(capture.flags & SONDE_FLAG_ASYNC);
      assert_int_equal(count, 2);
      assert_int_equal(capture.status, tag == 0 ? SONDE_STACK_COMPLETE : SONDE_STACK_BROKEN);
    }
  }
}

/* ---- another thread ---------------------------------------------------------------------------
 */

typedef struct other {
  pthread_t thread;
  pid_t tid;
  int ends[2];
  /* Atomic. */
  int is_inside, is_over;
  int blocks;
} other_t;

static __attribute__((noinline)) void stay(void *argument) {
  other_t *other = argument;
  char byte;
  __atomic_store_n(&other->is_inside, 1, __ATOMIC_RELEASE);
  while (other->blocks && read(other->ends[0], &byte, 1) != 1) {
  }
  while (!__atomic_load_n(&other->is_over, __ATOMIC_ACQUIRE)) {
  }
  __asm__ volatile("");
}

static void *stay_inside(void *argument) {
  async_context_t second = {NULL, NULL, NULL, NULL};
  async_context_t first = {&second, resumes_second, NULL, NULL};
  async_context_t inner = {&first, resumes_first, stay, argument};
  async_context_t outer = {&inner, resumes_first, NULL, NULL};
  run_async(&outer);
  return NULL;
}

static void capture_other(other_t *other, seen_t *seen) {
  memset(&seen->capture, 0, sizeof seen->capture);
  seen->capture.pcs = seen->pcs;
  seen->capture.max = 64;
  seen->capture.async = seen->async;
  /* Signaled even while it waits. Passively its frame register is unknown, and an async frame's
   * prologue does not reveal it. */
  sonde_thread_options_t options = {.flags = SONDE_SIGNAL_BLOCKED, .timeout_ns = 60000000000};
  assert_true(sonde_capture_thread(other->tid, &seen->capture, &options) > 0);
  assert_int_equal(seen->capture.status, SONDE_STACK_COMPLETE);
}

static void check_other(other_t *other) {
  seen_t ignoring = {.async = SONDE_ASYNC_IGNORE}, following = {.async = SONDE_ASYNC_FOLLOW};
  for (int i = 0; i < 3; i++) {
    capture_other(other, &ignoring);
    capture_other(other, &following);
    int inner = place_in(&ignoring, async_inner, 64);
    assert_true(inner > 0);
    assert_int_equal(place_in(&ignoring, async_outer, 64), inner + 2);
    assert_false(ignoring.capture.flags & SONDE_FLAG_ASYNC);
    inner = place_in(&following, async_inner, 64);
    assert_true(following.capture.flags & SONDE_FLAG_ASYNC);
    assert_int_equal(following.capture.count, inner + 3);
    assert_int_equal(following.pcs[inner + 1], (uintptr_t)resumes_first + 1);
    assert_int_equal(following.pcs[inner + 2], (uintptr_t)resumes_second + 1);
  }
}

static void with_other(int blocks) {
  other_t other = {.blocks = blocks};
  assert_int_equal(pipe(other.ends), 0);
  assert_int_equal(pthread_create(&other.thread, NULL, stay_inside, &other), 0);
  other.tid = sonde_thread_of_pthread(other.thread);
  sonde_thread_t about = {0};
  while (!__atomic_load_n(&other.is_inside, __ATOMIC_ACQUIRE) || (blocks && about.state != 'S')) {
    usleep(1000);
    assert_int_equal(sonde_thread(other.tid, &about), 0);
  }
  check_other(&other);
  __atomic_store_n(&other.is_over, 1, __ATOMIC_RELEASE);
  assert_int_equal(write(other.ends[1], "x", 1), 1);
  pthread_join(other.thread, NULL);
  close(other.ends[0]);
  close(other.ends[1]);
}

static void test_another_thread_that_waits(void **state) {
  (void)state;
  with_other(1);
}

static void test_another_thread_that_runs(void **state) {
  (void)state;
  with_other(0);
}

int main(void) {
  void *library = dlopen(SONDE_FIXTURES "/libasync.so", RTLD_NOW);
  if (!library) {
    printf("skipped: no clang built the async frames\n");
    return 77;
  }
  run_async = (void (*)(async_context_t *))(uintptr_t)dlsym(library, "run_async");
  async_inner = (uintptr_t)dlsym(library, "async_inner");
  async_outer = (uintptr_t)dlsym(library, "async_outer");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ids), /* first: it is about the process's first id */
      cmocka_unit_test(test_the_thread_stack),
      cmocka_unit_test(test_the_async_calls),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_tags),
      cmocka_unit_test(test_another_thread_that_waits),
      cmocka_unit_test(test_another_thread_that_runs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
