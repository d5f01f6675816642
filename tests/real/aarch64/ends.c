/* SPDX-License-Identifier: MIT
 *
 * Functions whose ends are sleds of every kind, while nobody traces, while somebody does, after,
 * and while it changes under threads. Prints "right" when all results are.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sonde/trace.h>

#define KEEP    __attribute__((noinline))
#define NOT     __attribute__((noinline, xray_never_instrument))
#define THREADS 4

struct big {
  double d[6];
};
struct floats {
  double a, b, c, d;
};
typedef double all_t(long, long, long, long, long, long, long, long, double, double, double, double,
                     double, double, double, double);

KEEP static double all(long a, long b, long c, long d, long e, long f, long g, long h, double p,
                       double q, double r, double s, double t, double u, double v, double w) {
  double sum = p + 2 * q + 3 * r + 4 * s + 5 * t + 6 * u + 7 * v + 8 * w;
  return sum + (double)(a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h);
}

all_t *volatile target = all;
volatile long ten = 10;

/* Goes on in what TARGET points to, by a branch through a register that holds no argument. */
KEEP static double through_pointer(long a, long b, long c, long d, long e, long f, long g, long h,
                                   double p, double q, double r, double s, double t, double u,
                                   double v, double w) {
  return target(a, b, c, d, e, f, g, h, p, q, r, s, t, u, v, w);
}

/* More than registers hold. */
KEEP static long many(long a, long b, long c, long d, long e, long f, long g, long h, long i,
                      long j) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}

KEEP static struct big make_big(double x) {
  struct big b;
  for (int i = 0; i < 6; i++)
    b.d[i] = x + i;
  return b;
}

KEEP static struct floats make_floats(double x) { return (struct floats){x, x + 1, x + 2, x + 3}; }

KEEP static long even(long n);
KEEP static long odd(long n) { return n ? even(n - 1) : 0; }
KEEP static long even(long n) { return n ? odd(n - 1) : 1; }

NOT static int is_right(void) {
  double sum = through_pointer(1, 2, 3, 4, 5, 6, 7, 8, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5);
  struct big b = make_big(2);
  struct floats f = make_floats(3);
  return sum == 426 && many(1, 2, 3, 4, 5, 6, 7, 8, 9, ten) == 385 && b.d[0] == 2 && b.d[5] == 7 &&
         f.a == 3 && f.d == 6 && even(10) == 1;
}

NOT static int heads(unsigned head) {
  unsigned first[4], second[4];
  memcpy(first, (const void *)(unsigned long)make_floats, sizeof first);
  memcpy(second, (const void *)(unsigned long)odd, sizeof second);
  int marks = first[0] == 0xd503245f; /* bti c */
  return first[marks] == head && second[marks] == head;
}

static int done, wrong;

NOT static void *run(void *unused) {
  while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
    if (!is_right()) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
  return unused;
}

NOT static void change_under_threads(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, run, NULL)) abort();
  for (int i = 0; i < 100; i++) {
    if ((i % 2 ? sonde_trace_stop() : sonde_trace_start(0)) < 0) abort();
    usleep((unsigned)(i % 7) * 1000);
  }
  __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

NOT int main(int argc, char **argv) {
  const unsigned over = 0x14000008 /* b #32 */, nop = 0xd503201f;
  int right = is_right() && heads(over);
  if (sonde_trace_start(0) < 0) return 1;
  right = right && is_right() && heads(nop);
  if (sonde_trace_stop() < 0) return 1;
  right = right && is_right() && heads(over);
  if (argc > 2) change_under_threads();
  if (sonde_trace_save(argv[1]) < 0) return 1;
  puts(right && !wrong ? "right" : "wrong");
  return 0;
}
