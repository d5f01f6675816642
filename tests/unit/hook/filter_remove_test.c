/* SPDX-License-Identifier: MIT
 *
 * A filter that is removed leaves every slot and the loader's code as they were, and another filter
 * gets its place and sees all images. The fixture is a library and a caller of it
 * (tests/fixtures/hooked.c, caller.c).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "hook/filter.h"
#include "os/os.h"
#include "sonde/status.h"

typedef int call_t(int);

static call_t *call_plain, *call_indirect, *real[2];

static int more(int x) { return real[0](x) + 1000; }
static int much_more(int x) { return real[1](x) + 20000; }

static bool is_plain(const char *name, void *context) {
  (void)context;
  return !strcmp(name, "callee_plain");
}

static bool is_indirect(const char *name, void *context) {
  (void)context;
  return !strcmp(name, "callee_indirect");
}

static void *replace_by_more(const hook_candidate_t *c, void ***original, void *context) {
  (void)c, (void)context;
  *original = (void **)(void *)&real[0];
  return (void *)(uintptr_t)more;
}

static void *replace_by_much_more(const hook_candidate_t *c, void ***original, void *context) {
  (void)c, (void)context;
  *original = (void **)(void *)&real[1];
  return (void *)(uintptr_t)much_more;
}

static hook_filter_t plain = {.may_match = is_plain, .replace = replace_by_more};
static hook_filter_t indirect = {.may_match = is_indirect, .replace = replace_by_much_more};

static int plain_before, indirect_before;

static void expect(bool is_plain_hooked, bool is_indirect_hooked) {
  /* The caller calls each function twice. */
  assert_int_equal(call_plain(1), plain_before + 2 * 1000 * is_plain_hooked);
  assert_int_equal(call_indirect(1), indirect_before + 2 * 20000 * is_indirect_hooked);
}

static void a_removed_filter_hooks_nothing(void **state) {
  (void)state;
  uint8_t code[32];
  const void *loader = (const void *)(uintptr_t)os_loader_breakpoint();
  memcpy(code, loader, sizeof code);
  for (int round = 0; round < 10; round++) {
    assert_true(hook_filter_add(&plain) > 0);
    expect(true, false);
    assert_int_equal(hook_filter_add(&plain), SONDE_EBUSY);
    assert_int_equal(hook_filter_remove_local(&plain), SONDE_OK);
    expect(false, false);
    assert_int_equal(hook_filter_remove_local(&plain), SONDE_ENOTFOUND);
    assert_memory_equal(code, loader, sizeof code);
  }
}

static void the_others_stay(void **state) {
  (void)state;
  assert_true(hook_filter_add(&plain) > 0);
  assert_true(hook_filter_add(&indirect) > 0);
  expect(true, true);
  assert_int_equal(hook_filter_remove_local(&plain), SONDE_OK);
  expect(false, true);
  assert_true(hook_filter_add(&plain) > 0); /* in the place of the first */
  expect(true, true);
  assert_int_equal(hook_filter_remove_local(&indirect), SONDE_OK);
  assert_int_equal(hook_filter_remove_local(&plain), SONDE_OK);
  expect(false, false);
}

static int seen;

static void count_images(void *context) {
  (void)context;
  seen++;
}

static void a_watcher_is_removed(void **state) {
  (void)state;
  static hook_filter_t watcher = {.on_images = count_images};
  uint8_t code[32];
  const void *loader = (const void *)(uintptr_t)os_loader_breakpoint();
  memcpy(code, loader, sizeof code);
  for (int round = 0; round < 10; round++) {
    seen = 0;
    assert_true(hook_filter_watch(&watcher));
    void *late = dlopen(SONDE_FIXTURES "/libcaller-late.so", RTLD_LAZY);
    assert_non_null(late);
    assert_true(seen > 0);
    assert_int_equal(dlclose(late), 0);
    assert_true(hook_filter_unwatch(&watcher));
    assert_false(hook_filter_unwatch(&watcher));
    assert_memory_equal(code, loader, sizeof code);
  }
}

int main(void) {
  void *caller = dlopen(SONDE_FIXTURES "/libcaller-now.so", RTLD_NOW);
  if (!caller) return 1;
  *(void **)&call_plain = dlsym(caller, "call_plain");
  *(void **)&call_indirect = dlsym(caller, "call_indirect");
  plain_before = call_plain(1);
  indirect_before = call_indirect(1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_removed_filter_hooks_nothing),
      cmocka_unit_test(the_others_stay),
      cmocka_unit_test(a_watcher_is_removed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
