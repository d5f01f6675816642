/* SPDX-License-Identifier: MIT
 *
 * Hooks where other hooking libraries are known to break: odd bindings, code that runs at odd
 * moments, processes that fork, threads that end.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>
#include <cmocka.h>

#include "skip.h"
#include "sonde/hook.h"

typedef int call_t(int);

static call_t *go_on;
static int add_1000(int x) { return go_on(x) + 1000; }

static sonde_hook_t *hook(const char *symbol, void *replacement, void *original) {
  sonde_hook_t *h = NULL;
  sonde_hook_request_t r = {
      .symbol = symbol, .replacement = replacement, .original = (void **)original};
  assert_int_equal(sonde_hook_add(&r, 1, &h), SONDE_OK);
  return h;
}
static sonde_hook_t *hook_plain(void) {
  return hook("callee_plain", (void *)(uintptr_t)add_1000, &go_on);
}

static void *open_fixture(const char *name, int flags) {
  char path[512];
  snprintf(path, sizeof path, SONDE_FIXTURES "/lib%s.so", name);
  void *handle = dlopen(path, flags);
  if (!handle) fail_msg("%s", dlerror());
  return handle;
}

static call_t *function(void *handle, const char *name) {
  call_t *f;
  *(void **)&f = dlsym(handle, name);
  assert_non_null(f);
  return f;
}

static int states[8];
static int note(const sonde_slot_t *slot, void *context) {
  (void)context;
  states[slot->state]++;
  return 0;
}
static int reach(const sonde_hook_t *h) {
  memset(states, 0, sizeof states);
  return sonde_hook_reach(h, note, NULL);
}

/* ---- odd bindings --------------------------------------------------------------------------- */

/* First, while nothing else has defined the function. */
static void symbolic_library(void **state) {
  (void)state;
  void *handle = open_fixture("hooked-symbolic", RTLD_NOW);
  call_t *within = function(handle, "callee_within");
  sonde_hook_t *h = hook_plain();
  assert_int_equal(within(1), 102); /* its own call has no slot */
  assert_int_equal(reach(h), 0);
  assert_int_equal(states[SONDE_SLOT_WITHIN], 1);
  assert_int_equal(function(handle, "callee_plain")(1), 1002); /* dlsym gives the hook */
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  dlclose(handle);
}

/* A pointer that the program took before the hook came, and keeps on its stack, on its heap or in a
 * table of its own, is no slot: it goes on to the function, and no report knows of it, before or
 * after. One that is taken from a slot while the hook is there is the hook, which must then stay
 * where it is, and goes on to the function for good. */
static const void *copies[3];
static int note_copies(const sonde_slot_t *slot, void *context) {
  (void)context;
  for (int i = 0; i < 3; i++)
    assert_true(slot->address != (uintptr_t)copies[i]);
  return 0;
}

static void copied_pointers(void **state) {
  (void)state;
  static call_t *volatile table[4];
  void *handle = open_fixture("caller-now", RTLD_NOW);
  call_t *(*take)(void);
  *(void **)&take = dlsym(handle, "take_plain");
  call_t *volatile on_the_stack = take();
  call_t *volatile *on_the_heap = malloc(sizeof *on_the_heap);
  assert_non_null(on_the_heap);
  call_t *const function_itself = on_the_stack;
  table[2] = *on_the_heap = function_itself;
  copies[0] = (const void *)(uintptr_t)&on_the_stack;
  copies[1] = (const void *)(uintptr_t)on_the_heap;
  copies[2] = (const void *)(uintptr_t)&table[2];
  sonde_hook_t *h = hook_plain();
  assert_int_equal(take()(1), 1002);
  assert_int_equal(on_the_stack(1), 2);
  assert_int_equal((*on_the_heap)(1), 2);
  assert_int_equal(table[2](1), 2);
  assert_true(sonde_hook_reach(h, note_copies, NULL) > 0);
  call_t *volatile taken = take();
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  assert_ptr_equal(*on_the_heap, function_itself); /* nor are they written when it goes */
  assert_ptr_equal(take(), function_itself);
  assert_int_equal(taken(1), 1002);
  free((void *)(uintptr_t)on_the_heap);
  dlclose(handle);
}

static void deep_binding(void **state) {
  (void)state;
  if (is_sanitized()) SKIP_BECAUSE("the sanitizer refuses RTLD_DEEPBIND");
  void *first = open_fixture("caller-now", RTLD_NOW | RTLD_GLOBAL);
  sonde_hook_t *h = hook_plain();
  void *deep = open_fixture("deep", RTLD_NOW | RTLD_DEEPBIND);
  assert_int_equal(function(deep, "call_deep")(1), 8); /* bound to its own: left alone */
  assert_true(reach(h) > 0);
  assert_true(states[SONDE_SLOT_ELSEWHERE] >= 1);
  dlclose(deep);
  assert_int_equal(function(first, "call_plain")(1), 2 * 1002);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  dlclose(first);
}

/* Hooked before its constructor runs, though it is loaded inside another one's. */
static void load_in_a_constructor(void **state) {
  (void)state;
  void *callee = open_fixture("hooked", RTLD_NOW | RTLD_GLOBAL);
  sonde_hook_t *h = hook_plain();
  assert_int_equal(sonde_hook_late(), SONDE_OK);
  setenv("SONDE_TEST_LOADS", SONDE_FIXTURES "/libcaller-late.so", 1);
  void *outer = open_fixture("loads", RTLD_NOW);
  void *inner = *(void **)dlsym(outer, "loaded");
  assert_non_null(inner);
  assert_int_equal(*(int *)dlsym(inner, "call_early"), 1002);
  assert_int_equal(function(inner, "call_plain")(1), 2 * 1002);
  dlclose(inner);
  dlclose(outer);
  /* No constructor at all: hooked at the next dlsym. */
  void *bare = open_fixture("caller-bare", RTLD_NOW);
  assert_int_equal(function(bare, "call_plain")(1), 2 * 1002);
  dlclose(bare);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  dlclose(callee);
}

/* The loader takes the library that calls dlopen and dlsym for their caller, as without hooks: it
 * finds by that library's RUNPATH, which has $ORIGIN, what nobody else finds, and what stands
 * behind that library. What is found is hooked before its constructor runs. */
static void whom_the_loader_answers(void **state) {
  (void)state;
  if (is_sanitized()) SKIP_BECAUSE("the sanitizer's own dlopen is taken for the caller");
  void *finder = open_fixture("finder", RTLD_NOW), *(*find)(const char *), *(*next)(void);
  void *callee = open_fixture("hooked", RTLD_NOW);
  *(void **)&find = dlsym(finder, "find");
  *(void **)&next = dlsym(finder, "next_within");
  void *behind = dlsym(callee, "callee_within");
  for (int is_hooked = 0; is_hooked < 2; is_hooked++) {
    sonde_hook_t *h = is_hooked ? hook_plain() : NULL;
    assert_null(dlopen("libfound.so", RTLD_NOW));
    void *found = find("libfound.so");
    if (!found) fail_msg("%s", dlerror());
    assert_int_equal(*(int *)dlsym(found, "found_early"), is_hooked ? 1002 : 2);
    assert_ptr_equal(next(), behind);
    assert_ptr_not_equal(dlsym(finder, "callee_within"), behind);
    dlclose(found);
    if (h) assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  }
  dlclose(finder);
  dlclose(callee);
}

static void packed_relocations(void **state) {
  (void)state;
  if (access(SONDE_FIXTURES "/libcaller-relr.so", F_OK) != 0)
    SKIP_BECAUSE("this linker packs no relocations");
  void *handle = open_fixture("caller-relr", RTLD_NOW);
  sonde_hook_t *h = hook_plain();
  assert_int_equal(function(handle, "call_plain")(1), 2 * 1002);
  assert_int_equal(function(handle, "call_table")(1), 4 * 1002);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  assert_int_equal(function(handle, "call_table")(1), 8);
  dlclose(handle);
}

static void canonical_addresses(void **state) {
  (void)state;
  if (is_emulated() || is_sanitized())
    SKIP_BECAUSE("starts a program, which would be neither emulated nor sanitized");
  char line[128] = "";
  FILE *program = popen(SONDE_FIXTURES "/canonical", "r");
  assert_non_null(program);
  assert_non_null(fgets(line, sizeof line, program));
  assert_int_equal(pclose(program), 0);
  assert_string_equal(line, "0 1002 1002 1002 1102 | 0 2 2 102\n");
}

/* ---- odd moments ---------------------------------------------------------------------------- */

static void *(*real_malloc)(size_t);
static volatile long mallocs, inner_mallocs; /* gcc knows what strdup does not change */
static _Thread_local int inside;

/* The C library calls malloc for it, through a slot of its own. */
static void copy_text(void) {
  static char *volatile text = "text";
  char *volatile copy = strdup(text);
  free(copy);
}

static void *hooked_malloc(size_t size) {
  if (inside) {
    inner_mallocs++;
    return real_malloc(size);
  }
  inside = 1;
  mallocs++;
  copy_text();
  void *block = real_malloc(size);
  inside = 0;
  return block;
}

static void malloc_in_a_malloc_hook(void **state) {
  (void)state;
  if (is_sanitized()) SKIP_BECAUSE("the sanitizer's malloc is another one");
  sonde_hook_t *h = hook("malloc", (void *)(uintptr_t)hooked_malloc, &real_malloc);
  long before = mallocs, inner = inner_mallocs;
  for (int i = 0; i < 1000; i++)
    copy_text();
  long counted = mallocs - before;
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  assert_int_equal(counted, 1000);
  assert_int_equal(inner_mallocs - inner, 1000);
}

static call_t *volatile call_plain;
static volatile long handled, wrong;
static volatile bool alarms;

/* Not by an interval timer: where a handler takes longer than that, nothing else would run. */
static void set_alarm(void) {
  struct itimerval once = {.it_value = {0, 500}};
  if (alarms) (void)setitimer(ITIMER_REAL, &once, NULL);
}

static void on_alarm(int signal) {
  (void)signal;
  handled++;
  int result = call_plain(1);
  if (result != 4 && result != 2 * 1002) wrong++;
  set_alarm();
}

/* The handler calls while the thread it interrupts sets and removes hooks. */
static void in_a_signal_handler(void **state) {
  (void)state;
  void *handle = open_fixture("caller-lazy", RTLD_NOW);
  call_plain = function(handle, "call_plain");
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
  (void)sonde_hook_remove(hook_plain()); /* so that go_on leads somewhere */
  alarms = true;
  set_alarm();
  while (handled < (is_emulated() ? 20 : 200))
    assert_int_equal(sonde_hook_remove(hook_plain()), SONDE_OK);
  alarms = false;
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  print_message("%ld signals\n", handled);
  assert_int_equal(wrong, 0);
  dlclose(handle);
}

static int at_exit_of_thread;
static void destructor(void *value) {
  (void)value;
  at_exit_of_thread = call_plain(1);
}
static pthread_key_t key;
static void *use_key(void *value) {
  pthread_setspecific(key, value);
  return NULL;
}

static void destructors_at_thread_exit(void **state) {
  (void)state;
  void *handle = open_fixture("caller-now", RTLD_NOW);
  call_plain = function(handle, "call_plain");
  sonde_hook_t *h = hook_plain();
  pthread_t thread;
  assert_int_equal(pthread_key_create(&key, destructor), 0);
  assert_int_equal(pthread_create(&thread, NULL, use_key, &key), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(at_exit_of_thread, 2 * 1002);
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  dlclose(handle);
}

static void fork_child(void **state) {
  (void)state;
  void *handle = open_fixture("caller-now", RTLD_NOW);
  call_t *plain = function(handle, "call_plain");
  sonde_hook_t *h = hook_plain();
  pid_t child = fork();
  if (child == 0) {
    bool good = plain(1) == 2 * 1002 && sonde_hook_remove(h) == SONDE_OK && plain(1) == 4;
    h = hook_plain();
    good = good && h && plain(1) == 2 * 1002 && sonde_hook_remove(h) == SONDE_OK && plain(1) == 4;
    _exit(good ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(plain(1), 2 * 1002); /* the parent's are as they were */
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  dlclose(handle);
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *count) {
  (void)context;
  ++*(int *)count;
  return _URC_NO_REASON;
}
static int frames_inside;
static int count_frames(int x) {
  frames_inside = 0;
  (void)_Unwind_Backtrace(count_frame, &frames_inside);
  return go_on(x);
}

/* A hook is a call in place of the call: what unwinds from it sees its caller. */
static void unwinding_inside(void **state) {
  (void)state;
  void *handle = open_fixture("caller-noplt", RTLD_NOW);
  int here = 0;
  (void)_Unwind_Backtrace(count_frame, &here);
  sonde_hook_t *h = hook("callee_plain", (void *)(uintptr_t)count_frames, &go_on);
  assert_int_equal(function(handle, "call_plain")(1), 4);
  assert_int_equal(frames_inside, here + 2); /* call_plain and the hook */
  assert_int_equal(sonde_hook_remove(h), SONDE_OK);
  dlclose(handle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(symbolic_library),
      cmocka_unit_test(copied_pointers),
      cmocka_unit_test(deep_binding),
      cmocka_unit_test(load_in_a_constructor),
      cmocka_unit_test(whom_the_loader_answers),
      cmocka_unit_test(packed_relocations),
      cmocka_unit_test(canonical_addresses),
      cmocka_unit_test(malloc_in_a_malloc_hook),
      cmocka_unit_test(in_a_signal_handler),
      cmocka_unit_test(destructors_at_thread_exit),
      cmocka_unit_test(fork_child),
      cmocka_unit_test(unwinding_inside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
