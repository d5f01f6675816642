/* SPDX-License-Identifier: MIT
 *
 * Programs of different shapes, to be traced: shapes NAME. Each is small enough for its call graph
 * to be compared with that of another tracer.
 */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __clang__
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noinline, noclone))
#endif

static volatile long sink;

/* recursion */
KEEP static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void shape_fib(void) { sink = fib(12); }

/* mutual recursion */
KEEP static int is_odd(int n);
KEEP static int is_even(int n) { return n ? is_odd(n - 1) + 0 * (int)sink : 1; }
KEEP static int is_odd(int n) { return n ? is_even(n - 1) + 0 * (int)sink : 0; }
static void shape_mutual(void) { sink = is_even(60); }

/* deep recursion, 3000 frames */
KEEP static long down(long n) { return n ? 1 + down(n - 1) : sink; }
static void shape_deep(void) { sink = down(900); }

/* callbacks out of the C library */
KEEP static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static void shape_qsort(void) {
  int v[64];
  for (int i = 0; i < 64; i++)
    v[i] = (i * 37) % 64;
  qsort(v, 64, sizeof *v, compare);
  sink = v[0];
}

/* pointers to functions */
typedef long op_t(long, long);
KEEP static long add(long a, long b) { return a + b; }
KEEP static long sub(long a, long b) { return a - b; }
KEEP static long mul(long a, long b) { return a * b; }
static op_t *const ops[] = {add, sub, mul};
static void shape_pointers(void) {
  for (int i = 0; i < 50; i++)
    sink = ops[(i * 7) % 3](i, sink);
}

/* varargs, doubles, structures in memory and in registers */
struct big {
  double d[6];
};
struct pair {
  long a;
  double b;
};
KEEP static double sum(int n, ...) {
  va_list v;
  double s = 0;
  va_start(v, n);
  while (n--)
    s += va_arg(v, double);
  va_end(v);
  return s;
}
KEEP static struct big make_big(double x) {
  struct big b;
  for (int i = 0; i < 6; i++)
    b.d[i] = x + i;
  return b;
}
KEEP static struct pair make_pair(long a, double b) { return (struct pair){a + 1, b * 2}; }
KEEP static long double long_double(long double x) { return x * 3; }
KEEP static long many(long a, long b, long c, long d, long e, long f, long g, double h, long i) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + (long)(8 * h) + 9 * i;
}
static void shape_abi(void) {
  double s = sum(3, 1.5, 2.5, 3.0);
  struct big b = make_big(s);
  struct pair p = make_pair(41, 1.25);
  long double l = long_double(2.0L);
  long m = many(1, 2, 3, 4, 5, 6, 7, 8.0, 9);
  printf("%g %g %ld %g %Lg %ld\n", s, b.d[5], p.a, p.b, l, m);
}

/* functions inlined into others and into themselves */
static inline __attribute__((always_inline)) long square(long x) { return x * x + sink; }
static inline __attribute__((always_inline)) long twice(long x) {
  return square(x) + square(x + 1);
}
static void shape_inline(void) {
  for (int i = 0; i < 20; i++)
    sink = twice(i) & 0xff;
}
static long power(long b, int n) { return n ? b * power(b, n - 1) : 1; }
static void shape_inline_itself(void) {
  for (int i = 0; i < 9; i++)
    sink += power(2, i);
}

/* frames of changing size */
KEEP static long of_alloca(size_t n) {
  char *p = alloca(n);
  memset(p, 1, n);
  sink += p[n / 2];
  return n > 100 ? of_alloca(n / 2) + 1 : 0;
}
KEEP static long of_vla(int n) {
  volatile int v[n];
  for (int i = 0; i < n; i++)
    v[i] = i;
  return v[n - 1] + add(1, 2);
}
static void shape_alloca(void) { sink += of_alloca(5000) + of_vla(500) + of_vla(3); }

/* a frame of 3 MB */
KEEP static long huge(int n) {
  volatile char big[3 << 20];
  big[0] = (char)n;
  return n ? huge(n - 1) + big[0] : add(1, 1);
}
static void shape_huge(void) { sink = huge(1); }

/* tail calls, where they are optimised */
KEEP static long last(long n) { return n + sink; }
KEEP static long middle(long n) { return last(n + 1); }
KEEP static long first(long n) { return middle(n * 2); }
static void shape_tail(void) {
  for (int i = 0; i < 10; i++)
    sink = first(i) & 7;
}

/* at exit */
KEEP static void good_bye(void) { sink = add(sink, 1); }
static void shape_atexit(void) { atexit(good_bye); }

/* signal handlers */
KEEP static void handled(int n) { sink = add(n, 1); }
static void shape_signal(void) {
  signal(SIGUSR1, handled);
  for (int i = 0; i < 20; i++)
    raise(SIGUSR1);
}
KEEP static void raise_inside(void) { raise(SIGUSR2); }
static void shape_altstack(void) {
  stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
  struct sigaction a = {.sa_handler = handled, .sa_flags = SA_ONSTACK};
  sigaltstack(&s, NULL);
  sigaction(SIGUSR2, &a, NULL);
  for (int i = 0; i < 20; i++) {
    raise_inside();
    sink = add(sink, 1);
  }
}

/* threads */
KEEP static long work(long n) { return n ? work(n - 1) + 1 : 0; }
KEEP static void *thread(void *p) {
  for (int i = 0; i < 20; i++)
    sink = work((long)(intptr_t)p);
  return NULL;
}
static void shape_threads(void) {
  pthread_t t[6];
  for (intptr_t i = 0; i < 6; i++)
    pthread_create(&t[i], NULL, thread, (void *)i);
  for (int i = 0; i < 6; i++)
    pthread_join(t[i], NULL);
}
static void shape_short_threads(void) {
  for (intptr_t i = 0; i < 40; i++) {
    pthread_t t;
    pthread_create(&t, NULL, thread, (void *)(i % 3));
    pthread_join(t, NULL);
  }
}

/* a child that works as well */
static void shape_fork(void) {
  sink = add(1, 2);
  pid_t pid = fork();
  if (pid == 0) {
    for (int i = 0; i < 5; i++)
      sink = mul(sink, 3);
    _exit(0);
  }
  waitpid(pid, NULL, 0);
  sink = sub(sink, 1);
}

/* three hundred functions */
#define F1(n)                                                                                      \
  KEEP static long f##n(long x) { return x + n + sink % 2; }
#define F10(n)                                                                                     \
  F1(n##0) F1(n##1) F1(n##2) F1(n##3) F1(n##4) F1(n##5) F1(n##6) F1(n##7) F1(n##8) F1(n##9)
#define F100(n)                                                                                    \
  F10(n##0)                                                                                        \
  F10(n##1) F10(n##2) F10(n##3) F10(n##4) F10(n##5) F10(n##6) F10(n##7) F10(n##8) F10(n##9)
F100(1)
F100(2)
F100(3)
#define C1(n) x = f##n(x);
#define C10(n)                                                                                     \
  C1(n##0) C1(n##1) C1(n##2) C1(n##3) C1(n##4) C1(n##5) C1(n##6) C1(n##7) C1(n##8) C1(n##9)
#define C100(n)                                                                                    \
  C10(n##0)                                                                                        \
  C10(n##1) C10(n##2) C10(n##3) C10(n##4) C10(n##5) C10(n##6) C10(n##7) C10(n##8) C10(n##9)
KEEP static long all_of_them(long x) { C100(1) C100(2) C100(3) return x; }
static void shape_many(void) {
  for (int i = 0; i < 3; i++)
    sink = all_of_them(i);
}

/* a random tree of calls, by the seed in SEED */
static uint64_t state;
static unsigned any(unsigned n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % n;
}
KEEP static long grow_a(int depth);
KEEP static long grow_b(int depth);
KEEP static long grow_c(int depth) { return depth > 9 ? 1 : any(2) ? grow_a(depth + 1) : sink; }
KEEP static long grow_b(int depth) {
  long n = 1;
  for (unsigned i = depth > 9 ? 0 : any(4); i; i--)
    n += any(3) ? grow_c(depth + 1) : grow_b(depth + 1);
  return n;
}
KEEP static long grow_a(int depth) {
  return depth > 9 ? 1 : grow_b(depth + 1) + grow_b(depth + 1) + grow_c(depth + 1);
}
static void shape_random(void) {
  const char *seed = getenv("SEED");
  state = seed ? strtoull(seed, NULL, 10) : 1;
  sink = grow_a(0);
}

/* constructors and destructors */
__attribute__((constructor)) static void before_main(void) { sink = 3; }
__attribute__((destructor)) static void after_main(void) { sink = 4; }
static void shape_nothing(void) {}

/* ---- what ends calls without returning ------------------------------------------------------ */

static jmp_buf out;
KEEP static long jump_down(int n) {
  if (!n) longjmp(out, 1);
  return jump_down(n - 1) + 1;
}
static void shape_longjmp(void) {
  for (volatile int i = 0; i < 10; i++) {
    if (!setjmp(out)) sink = jump_down(4);
    sink = add(sink, 1);
  }
}
/* the same call from the same place, at the same stack pointer, after a longjmp */
KEEP static long jump_now(long n) {
  if (sink != n) longjmp(out, 1);
  return n;
}
static void shape_longjmp_again(void) {
  volatile int i = 0;
  sink = -1;
  setjmp(out);
  while (i++ < 10)
    jump_now(i);
}
KEEP static void jump_out_of_handler(int n) {
  (void)n;
  longjmp(out, 1);
}
static void shape_longjmp_handler(void) {
  struct sigaction a = {.sa_handler = jump_out_of_handler, .sa_flags = SA_NODEFER | SA_ONSTACK};
  stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
  sigaltstack(&s, NULL);
  sigaction(SIGUSR1, &a, NULL);
  for (volatile int i = 0; i < 10; i++) {
    if (!setjmp(out)) raise(SIGUSR1);
    sink = add(sink, 1);
  }
}
KEEP static void end_thread(int n) {
  if (!n) pthread_exit(NULL);
  end_thread(n - 1);
  sink++;
}
KEEP static void *ending(void *p) {
  end_thread((int)(intptr_t)p);
  return NULL;
}
static void shape_pthread_exit(void) {
  for (intptr_t i = 0; i < 5; i++) {
    pthread_t t;
    pthread_create(&t, NULL, ending, (void *)i);
    pthread_join(t, NULL);
  }
}
static pthread_key_t key;
KEEP static void destroyed(void *p) { sink = add((long)(intptr_t)p, 1); }
KEEP static void *with_key(void *p) {
  pthread_setspecific(key, p);
  return NULL;
}
static void shape_thread_destructor(void) {
  pthread_key_create(&key, destroyed);
  for (intptr_t i = 1; i < 6; i++) {
    pthread_t t;
    pthread_create(&t, NULL, with_key, (void *)i);
    pthread_join(t, NULL);
  }
}
KEEP static void leave_now(void) { exit(0); }
static void shape_exit(void) { leave_now(); }

#define SHAPES(X)                                                                                  \
  X(fib)                                                                                           \
  X(mutual)                                                                                        \
  X(deep)                                                                                          \
  X(qsort)                                                                                         \
  X(pointers)                                                                                      \
  X(abi)                                                                                           \
  X(inline)                                                                                        \
  X(inline_itself)                                                                                 \
  X(alloca)                                                                                        \
  X(huge)                                                                                          \
  X(tail)                                                                                          \
  X(atexit)                                                                                        \
  X(signal)                                                                                        \
  X(altstack)                                                                                      \
  X(threads)                                                                                       \
  X(short_threads)                                                                                 \
  X(fork)                                                                                          \
  X(many)                                                                                          \
  X(random)                                                                                        \
  X(nothing)                                                                                       \
  X(longjmp) X(longjmp_again) X(longjmp_handler) X(pthread_exit) X(thread_destructor) X(exit)

int main(int argc, char **argv) {
  if (argc < 2) return 2;
#define RUN(name)                                                                                  \
  if (!strcmp(argv[1], #name)) {                                                                   \
    shape_##name();                                                                                \
    return 0;                                                                                      \
  }
  SHAPES(RUN)
  return 2;
}
