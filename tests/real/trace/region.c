/* SPDX-License-Identifier: MIT
 *
 * A program, in C and in C++, that traces a part of itself: region FILE.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sonde/sonde.h"

#define KEEP __attribute__((noinline))

static volatile long sink;

KEEP static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

KEEP static void region(int n) {
  sonde_trace_scope("outer");
  for (int i = 0; i < n; i++) {
    sonde_trace_scope("inner");
    sink = fib(5);
  }
}

KEEP static void *thread(void *p) {
  region(3);
  return p;
}

/* Not traced: nothing was started in the child. */
__attribute__((no_instrument_function, patchable_function_entry(0))) static int
child_is_not_traced(void) {
  int status;
  pid_t pid = fork();
  if (!pid) {
    region(5);
    _exit(sonde_trace_print(1) == SONDE_EINVAL ? 0 : 9);
  }
  waitpid(pid, &status, 0);
  return status == 0;
}

int main(int argc, char **argv) {
  pthread_t t;
  if (argc < 2) return 2;
  sink = fib(10);
  if (sonde_trace_print(1) != SONDE_EINVAL || sonde_trace_stop() != SONDE_EINVAL) return 3;
  if (sonde_trace_start(0) != 0) return 4;
  region(10);
  pthread_create(&t, NULL, thread, NULL);
  pthread_join(t, NULL);
  if (!child_is_not_traced()) return 5;
  sonde_trace_stop();
  sink = fib(10);
  if (sonde_trace_start(0) != 0) return 6;
  sink = fib(4);
  sonde_trace_stop();
  fprintf(stderr, "%d\n", sonde_trace_print(1));
  if (sonde_trace_save(argv[1]) != 0) return 8;
  if (sonde_trace_save(argv[1]) != SONDE_EIO) return 9;
  return 0;
}
