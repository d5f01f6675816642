/* SPDX-License-Identifier: MIT
 *
 * Calls of known duration and depth. `limits record`: to be traced from outside; otherwise the
 * program traces itself, with the limits that its arguments name: LEAST_NS DEPTH FILE. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONG_CALLS  20000
#define LONG_NS     20000
#define QUICK_CALLS 3

#if defined(OWN)
#include <sonde/trace.h>
#endif
#define HIDE __attribute__((no_instrument_function))
#define KEEP __attribute__((noinline))

HIDE static long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}

KEEP int quick(int n) {
  __asm__ volatile("" : "+r"(n));
  return n + 1;
}

KEEP int wrapper(int n) {
  int sum = quick(n) * 3;
  __asm__ volatile("" : "+r"(sum));
  return sum + quick(n);
}

/* Takes at least LONG_NS, with the quick calls inside it. */
KEEP int long_call(int n) {
  long until = now_ns() + LONG_NS;
  for (int i = 0; i < QUICK_CALLS; i++)
    n += wrapper(i);
  while (now_ns() < until)
    continue;
  return n;
}

KEEP int outer(int calls) {
  int sum = 0;
  for (int i = 0; i < calls; i++)
    sum += long_call(i) + quick(i);
  return sum;
}

#if defined(OWN)
static void say(int functions, const char *reason, void *context) {
  (void)context;
  fprintf(stderr, "%d unpatched: %s\n", functions, reason);
}

HIDE int main(int argc, char **argv) {
  if (argc != 4) return 2;
  if (sonde_trace_filter(strtoull(argv[1], NULL, 10), (unsigned)atoi(argv[2])) != 0) return 3;
  if (PATTERN[0] && sonde_trace_calls(PATTERN) != 0) return 4;
  if (PATTERN[0]) fprintf(stderr, "%d patched\n", sonde_trace_patched(say, NULL));
  if (sonde_trace_start(0) != 0) return 5;
  int sum = outer(200);
  if (sonde_trace_filter(0, 0) != SONDE_EBUSY) return 6;
  sonde_trace_stop();
  int lines = sonde_trace_print_filtered(1, 0, 0);
  puts("--"), fflush(stdout);
  if (sonde_trace_print_filtered(1, LONG_NS / 2, 0) > lines) return 7;
  puts("--"), fflush(stdout);
  if (sonde_trace_print_filtered(1, 0, 1) != 2) return 8; /* the heading and one function */
  return sonde_trace_save(argv[3]) == 0 && sum != 1 ? 0 : 9;
}
#else
int main(int argc, char **argv) {
  (void)argv;
  return argc == 2 && outer(LONG_CALLS) == 1;
}
#endif
