/* SPDX-License-Identifier: MIT
 *
 * The text of a stack: a cached text equals a new one, also with other threads, in bounded memory,
 * and it is dropped when an image is unloaded.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "sonde/name.h"
#include "sonde/stack.h"
#include "capture/stack_text.h"

/* ---- many different stacks ------------------------------------------------------------------- */

#define STACKS 3000
#define TURNS  12

static uint32_t descend(unsigned path, int turns);

__attribute__((noinline)) static uint32_t left(unsigned path, int turns) {
  uint32_t id = descend(path >> 1, turns - 1);
  __asm__ volatile("");
  return id;
}

__attribute__((noinline)) static uint32_t right(unsigned path, int turns) {
  uint32_t id = descend(path >> 1, turns - 1);
  /* Otherwise they would be one function. */
  __asm__ volatile("nop");
  return id;
}

__attribute__((noinline)) static uint32_t descend(unsigned path, int turns) {
  uint32_t id = 0;
  if (turns == 0)
    assert_int_equal(sonde_stack_id(&id), 0);
  else
    id = path & 1 ? right(path, turns) : left(path, turns);
  __asm__ volatile("");
  return id;
}

static uint32_t ids[STACKS];
static char *expected[STACKS];

static void make_stacks(void) {
  char text[16384];
  for (unsigned i = 0; i < STACKS; i++) {
    ids[i] = descend(i, TURNS);
    int length = stack_text_make(ids[i], 0, text, sizeof text);
    assert_in_range(length, 100, sizeof text - 1);
    expected[i] = strdup(text);
  }
}

static int wrong(unsigned i) {
  char text[16384];
  int length = sonde_stack_text(ids[i], 0, text, sizeof text);
  return length != (int)strlen(expected[i]) || strcmp(text, expected[i]) != 0;
}

static void test_is_what_naming_gives(void **state) {
  (void)state;
  assert_non_null(strstr(expected[5], "  right+0x"));
  assert_non_null(strstr(expected[5], "  left+0x"));
  assert_non_null(strstr(expected[5], "  main+0x"));
  for (unsigned i = 0; i < STACKS; i++) {
    /* Made. */
    assert_int_equal(wrong(i), 0);
    /* Cached. */
    assert_int_equal(wrong(i), 0);
  }
  assert_in_range(stack_text_count(), 900, 1024);
}

static void test_same_lines_as_print(void **state) {
  (void)state;
  uintptr_t pcs[100];
  char text[16384] = {0}, printed[16384] = {0};
  int ends[2], count = sonde_stack_of_id(ids[7], pcs, 100);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(sonde_stack_print(ends[1], pcs, count, 0), count);
  assert_true(read(ends[0], printed, sizeof printed - 1) > 0);
  assert_true(sonde_stack_text(ids[7], 0, text, sizeof text) > 0);
  assert_string_equal(text, printed);
  close(ends[0]);
  close(ends[1]);
}

static void test_cut_and_refused(void **state) {
  (void)state;
  char text[50];
  int whole = (int)strlen(expected[1]);
  for (int round = 0; round < 2; round++) {
    assert_int_equal(sonde_stack_text(ids[1], 0, text, sizeof text), whole);
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_memory_equal(text, expected[1], sizeof text - 1);
    assert_int_equal(sonde_stack_text(ids[1], 0, NULL, 0), whole);
  }
  assert_int_equal(sonde_stack_text(0, 0, text, sizeof text), SONDE_ENOTFOUND);
  assert_int_equal(sonde_stack_text(UINT32_MAX, 0, text, sizeof text), SONDE_ENOTFOUND);
  assert_int_equal(sonde_stack_text(ids[1], 64, text, sizeof text), SONDE_EINVAL);
  assert_int_equal(sonde_stack_text(ids[1], 0, NULL, 5), SONDE_EINVAL);
}

static void test_app_only(void **state) {
  (void)state;
  char text[16384];
  for (int round = 0; round < 2; round++) {
    assert_true(sonde_stack_text(ids[3], SONDE_NAME_APP_ONLY, text, sizeof text) > 0);
    assert_non_null(strstr(text, "  left+0x"));
    assert_null(strstr(text, "/libc.so"));
  }
  assert_non_null(strstr(expected[3], "/libc.so"));
}

/* ---- images that go -------------------------------------------------------------------------- */

static char folder[] = "/tmp/sonde-named-XXXXXX";
static uint32_t id_from_library;

static void take_id(void) { assert_int_equal(sonde_stack_id(&id_from_library), 0); }

static void build_library(const char *name, const char *function) {
  char command[1024];
  snprintf(command, sizeof command,
           "printf 'void %s(void (*f)(void)){f();__asm__ volatile(\"\");}' | " SONDE_CC
           " -shared -fPIC -O1 -g -x c - -o %s/%s.so",
           function, folder, name);
  assert_int_equal(system(command), 0);
}

static void *call_library(const char *name, const char *function) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s.so", folder, name);
  void *handle = dlopen(path, RTLD_NOW);
  assert_non_null(handle);
  void (*call)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(handle, function);
  assert_non_null(call);
  call(take_id);
  return handle;
}

static void test_dropped_with_its_image(void **state) {
  (void)state;
  char first[16384], again[16384];
  build_library("one", "function_one");
  build_library("two", "function_two");
  void *handle = call_library("one", "function_one");
  uint32_t id = id_from_library;
  assert_true(sonde_stack_text(id, 0, first, sizeof first) > 0);
  assert_non_null(strstr(first, "  function_one+0x"));
  unsigned before = stack_text_count();
  sonde_stack_text(id, 0, again, sizeof again);
  assert_int_equal(stack_text_count(), before);
  dlclose(handle);

  /* Very likely at the same address. */
  handle = call_library("two", "function_two");
  uint32_t other = id_from_library;
  assert_int_not_equal(other, id);
  assert_true(sonde_stack_text(other, 0, again, sizeof again) > 0);
  assert_non_null(strstr(again, "  function_two+0x"));
  before = stack_text_count();
  assert_true(sonde_stack_text(id, 0, again, sizeof again) > 0);
  /* The names are still correct … */
  assert_string_equal(again, first);
  /* … but no longer cached. */
  assert_int_equal(stack_text_count(), before);
  dlclose(handle);
}

/* ---- many threads ---------------------------------------------------------------------------- */

static int stop, failures;
static long requested;

static void *ask(void *seed) {
  unsigned random = (unsigned)(uintptr_t)seed;
  long count = 0;
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    random = random * 1103515245 + 12345;
    if (wrong((random >> 8) % STACKS)) __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    count++;
  }
  __atomic_fetch_add(&requested, count, __ATOMIC_RELAXED);
  return NULL;
}

static void test_concurrent(void **state) {
  (void)state;
  pthread_t threads[4];
  char path[600];
  snprintf(path, sizeof path, "%s/one.so", folder);
  for (uintptr_t i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask, (void *)(i * 77 + 1)), 0);
  for (int i = 0; i < 200; i++) {
    struct timespec pause = {0, 5000000};
    void *handle = dlopen(path, RTLD_NOW);
    nanosleep(&pause, NULL);
    dlclose(handle);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  print_message("%ld stack texts read by 4 threads, %d wrong\n", requested, failures);
  assert_int_equal(failures, 0);
  assert_true(stack_text_count() <= 1024);
}

static int start(void **state) {
  (void)state;
  make_stacks();
  return mkdtemp(folder) == NULL;
}

static int end(void **state) {
  (void)state;
  char command[200];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_is_what_naming_gives),   cmocka_unit_test(test_same_lines_as_print),
      cmocka_unit_test(test_cut_and_refused),        cmocka_unit_test(test_app_only),
      cmocka_unit_test(test_dropped_with_its_image), cmocka_unit_test(test_concurrent),
  };
  return cmocka_run_group_tests(tests, start, end);
}
