/* SPDX-License-Identifier: MIT
 *
 * As many calls as the arguments say: one inside the other, and one after the other. In two parts,
 * of which the recursion goes to and fro, so that it is one of imported functions as well.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

long call_down(long depth);
void call_step(void);
long pass_on(long depth);

#ifdef PROGRAM
#define APART __attribute__((no_instrument_function, patchable_function_entry(0)))
#if defined(__clang__)
#define OUTSIDE APART __attribute__((xray_never_instrument))
#else
#define OUTSIDE APART
#endif

static long deep, many;

OUTSIDE long pass_on(long depth) { return call_down(depth) + 1; }

OUTSIDE static void *work(void *context) {
  if (deep && call_down(deep) != deep) abort();
  for (long i = 0; i < many; i++)
    call_step();
  return context;
}

OUTSIDE int main(int argc, char **argv) {
  if (argc < 3) return 2;
  pthread_attr_t attributes;
  pthread_t thread;
  deep = atol(argv[1]);
  many = atol(argv[2]);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)256 << 20);
  if (pthread_create(&thread, &attributes, work, NULL)) return 2;
  pthread_join(thread, NULL);
  puts("done");
  return 0;
}
#else
static volatile long steps;
long call_down(long depth) { return depth > 1 ? pass_on(depth - 1) : 1; }
void call_step(void) { steps++; }
#endif
