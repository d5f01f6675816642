/* SPDX-License-Identifier: MIT
 *
 * Compiled with -finstrument-functions: a part that traces itself (sonde/trace.h).
 */
#include "check.h"
#include "sonde/trace.h"

static __thread volatile long sink; /* a variable of dyld's kind */

__attribute__((noinline)) static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

void run_regions(void) {
  sonde_trace_scope("outer");
  for (int i = 0; i < 3; i++) {
    sonde_trace_scope("inner");
    sink = fib(4);
  }
}
