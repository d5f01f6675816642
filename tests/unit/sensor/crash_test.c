/* SPDX-License-Identifier: MIT
 *
 * Captures and prints a stack in a signal handler with an 8 KB signal stack, as the first use of
 * sonde in the process: nothing is prepared, no image is known, no index exists. Each case is a
 * child that dies by a real fault. A page below its signal stack must not be touched.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "skip.h"
#include "sonde/name.h"
#include "sonde/stack.h"

/* The kernel's frame for a handler alone is 1 to 3 KB on x86_64 and 4.6 KB on aarch64. */
#if defined(__aarch64__)
#define SIGNAL_STACK 12288u
#else
#define SIGNAL_STACK 8192u
#endif
#define PAINT 0x5a

static int out;
static uint8_t *signal_stack;
static uintptr_t pcs[200];

/* Bytes of the signal stack that were ever written. */
static unsigned used(void) {
  unsigned clean = 0;
  while (clean < SIGNAL_STACK && signal_stack[clean] == PAINT)
    clean++;
  return SIGNAL_STACK - clean;
}

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)info;
  sonde_capture_t capture = {.pcs = pcs, .max = 200, .ucontext = context};
  unsigned before = used();
  int count = sonde_capture(&capture);
  unsigned captured = used();
  int lines = sonde_stack_print(out, pcs, count, SONDE_NAME_EXACT);
  dprintf(out, "\nlines %d of %d, status %d; %u, %u, %u bytes used\n", lines, count,
          (int)capture.status, before, captured, used());
  _exit(7);
}

static void use_signal_stack(void) {
  uint8_t *room =
      mmap(NULL, 4096 + SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(room, 4096, PROT_NONE);
  signal_stack = room + 4096;
  memset(signal_stack, PAINT, SIGNAL_STACK);
  stack_t stack = {.ss_sp = signal_stack, .ss_size = SIGNAL_STACK};
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaltstack(&stack, NULL);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGABRT, &action, NULL);
}

/* ---- ways to die ----------------------------------------------------------------------------- */

__attribute__((noipa)) static int read_null(volatile int *nothing) { return *nothing + 1; }

__attribute__((noinline)) static void *die_in_worker(void *unused) {
  use_signal_stack();
  return unused ? NULL : (void *)(intptr_t)(read_null(NULL) + 1);
}

static void die_as_worker(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, die_in_worker, NULL);
  pthread_join(thread, NULL);
}

/* free() detects an invalid block and aborts, with malloc's lock held in old C libraries. */
static void die_in_malloc(void) {
  use_signal_stack();
  uintptr_t *block = malloc(4096);
  block[1] = 0; /* would be the size of the next block */
  block[0] = 0x1001;
  void *volatile inside = (char *)block + 16;
  free(inside);
  abort();
}

static volatile int deepest = 1 << 30;

__attribute__((noipa)) static int overflow(int depth) {
  volatile char room[600];
  room[depth % 600] = 1;
  return depth < deepest ? overflow(depth + 1) + room[0] : 0;
}

/* The frame is larger than a page: the stack pointer ends deep in the guard area. */
__attribute__((noipa)) static int overshoot(int depth) {
  volatile char room[12 << 10];
  room[depth % 600] = 1;
  return depth < deepest ? overshoot(depth + 1) + room[0] : 0;
}

static void die_by_overflow(void) {
  use_signal_stack();
  exit(overflow(0));
}

static void *overshoot_in_thread(void *unused) {
  use_signal_stack();
  overshoot(0);
  return unused;
}

static void die_by_overshooting(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setguardsize(&attributes, 64 << 10);
  pthread_create(&thread, &attributes, overshoot_in_thread, NULL);
  pthread_join(thread, NULL);
}

__attribute__((noinline)) static void die_calling_null(void) {
  use_signal_stack();
  void (*volatile nowhere)(void) = NULL;
  nowhere();
  abort();
}

/* The output of a child that dies by WAY. */
static char *last_words(void (*way)(void)) {
  static char text[65536];
  int ends[2], status;
  assert_int_equal(pipe(ends), 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    out = ends[1];
    freopen("/dev/null", "w", stderr);
    alarm(300);
    way();
    _exit(1);
  }
  close(ends[1]);
  size_t length = 0;
  ssize_t count;
  while ((count = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)count;
  text[length] = 0;
  close(ends[0]);
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
    fail_msg("the handler did not finish: status %#x\n%s", status, text);
  const char *sum = strrchr(text, 'l');
  print_message("%s", sum ? sum : text);
  return text;
}

/* The line of frame NUMBER must name FUNCTION. */
static void expect_frame(const char *text, int number, const char *function) {
  char start[20], name[100];
  snprintf(start, sizeof start, "#%d ", number);
  snprintf(name, sizeof name, "  %s+0x", function);
  const char *line = number ? strstr(text, start) : text;
  const char *found = line ? strstr(line, name) : NULL;
  if (!found || memchr(line, '\n', (size_t)(found - line)))
    fail_msg("frame %d is not in %s:\n%.4000s", number, function, text);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void test_in_worker(void **state) {
  (void)state;
  const char *text = last_words(die_as_worker);
  expect_frame(text, 0, "read_null");
  expect_frame(text, 1, "die_in_worker");
  assert_non_null(strstr(text, "status 0"));
}

static void test_in_malloc(void **state) {
  (void)state;
  const char *text = last_words(die_in_malloc);
  assert_non_null(strstr(text, "  die_in_malloc+0x"));
  assert_non_null(strstr(text, "  main+0x"));
  assert_non_null(strstr(text, "status 0"));
}

static void test_by_overflow(void **state) {
  (void)state;
  const char *text = last_words(die_by_overflow);
  expect_frame(text, 0, "overflow");
  expect_frame(text, 1, "overflow");
  expect_frame(text, 199, "overflow");
  assert_non_null(strstr(text, "lines 200 of 200, status 1"));
}

static void test_by_overshooting(void **state) {
  (void)state;
  const char *text = last_words(die_by_overshooting);
  expect_frame(text, 0, "overshoot");
  expect_frame(text, 199, "overshoot");
}

static void test_calling_null(void **state) {
  (void)state;
  const char *text = last_words(die_calling_null);
  assert_memory_equal(text, "#0   0x0000000000000000  ??  (no image)\n", 40);
  expect_frame(text, 1, "die_calling_null");
}

int main(void) {
  if (is_sanitized()) {
    printf("skipped: a sanitizer handles crashes itself, and its frames exceed a signal stack\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_worker),    cmocka_unit_test(test_in_malloc),
      cmocka_unit_test(test_by_overflow),  cmocka_unit_test(test_by_overshooting),
      cmocka_unit_test(test_calling_null),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
