/* SPDX-License-Identifier: MIT
 *
 * What an intercepted call costs (sonde/intercept.h), in nanoseconds: plain, with a callback
 * before, and with callbacks before and after; of an import, and of a function whose code is
 * patched.
 */
#include <stdlib.h>

#include "bench.h"
#include "sonde/intercept.h"

#define ROUNDS 9
#define CALLS  200000

static unsigned long called;

static void before(sonde_call_t *call, void *context) {
  (void)context;
  called += sonde_call_argument(call, 2);
}

static void after(sonde_call_t *call, sonde_call_end_t end, void *context) {
  (void)end, (void)context;
  called += sonde_call_result(call, 0);
}

static double time_calls(void) {
  uint64_t start = bench_now_ns();
  for (int i = 0; i < CALLS; i++)
    called += strtoul("7", NULL, 10);
  return (double)(bench_now_ns() - start) / CALLS;
}

static double time_with(const char *target, void (*first)(sonde_call_t *, void *),
                        void (*last)(sonde_call_t *, sonde_call_end_t, void *)) {
  const sonde_intercept_request_t request = {.target = target, .before = first, .after = last};
  sonde_intercept_t *handle;
  int status = sonde_intercept_add(&request, &handle);
  if (status < 0) {
    fprintf(stderr, "cannot intercept: %s\n", sonde_strerror(status));
    exit(2);
  }
  double ns = time_calls();
  (void)sonde_intercept_remove(handle);
  return ns;
}

static void measure(const char *target) {
  double plain[ROUNDS], one[ROUNDS], two[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    plain[i] = time_calls();
    one[i] = time_with(target, before, NULL);
    two[i] = time_with(target, before, after);
  }
  double call = bench_median(plain, ROUNDS);
  printf("%-18s %.1f ns; with a callback before it %+.1f; before and after it %+.1f (%lu)\n",
         target, call, bench_median(one, ROUNDS) - call, bench_median(two, ROUNDS) - call,
         called % 10);
}

int main(void) {
  measure("strtoul");
  measure("libc.so*!strtoul");
  return 0;
}
