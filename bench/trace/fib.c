/* SPDX-License-Identifier: MIT
 *
 * Calls and nothing else: `fib N` prints the nanoseconds per call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef START
#include "sonde/trace.h"
#endif

#define UNTRACED __attribute__((no_instrument_function))

long fib(long n);

UNTRACED static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 27;
  double calls = 1, before = 1;
  for (long i = 2; i <= n; i++) {
    double sum = calls + before + 1;
    before = calls;
    calls = sum;
  }
#ifdef START
  if (sonde_trace_start(0) != 0) return 1;
#endif
  double from = now();
  volatile long sink = fib(n);
  (void)sink;
  printf("%.3f\n", (now() - from) / calls);
  return 0;
}
