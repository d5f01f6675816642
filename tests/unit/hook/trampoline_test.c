/* SPDX-License-Identifier: MIT
 *
 * Trampolines: whatever a function takes and gives back, and however it is left, the program sees
 * no difference, and each call is told once at its start and once at its end.
 */
#include <complex.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <ucontext.h>
#include <unwind.h>
#include <cmocka.h>

#include "arch/keep.h"
#include "skip.h"
#include "sonde/stack.h"
#include "dlopen_events.h"

/* The same, through code that uses every vector register. */
static void clobber(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  (void)a, (void)b, (void)c, (void)d;
#if defined(__x86_64__)
  __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n\tmovaps %%xmm0, %%xmm1\n\tmovaps %%xmm0, %%xmm2\n\t"
                   "movaps %%xmm0, %%xmm7\n\tmovaps %%xmm0, %%xmm15\n\tfldz\n\tfstp %%st(0)" ::
                       : "xmm0", "xmm1", "xmm2", "xmm7", "xmm15");
  if (__builtin_cpu_supports("avx")) __asm__ volatile("vzeroall");
#else
  __asm__ volatile("movi v0.16b, #255\n\tmovi v1.16b, #255\n\tmovi v2.16b, #255\n\t"
                   "movi v3.16b, #255\n\tmovi v7.16b, #255\n\tmovi v31.16b, #255" ::
                       : "v0", "v1", "v2", "v3", "v7", "v31");
#endif
}

static bool before_rough(call_t *call, const uint64_t *arguments) {
  arch_call_keeping(0, 0, 0, 0, clobber);
  return before(call, arguments);
}
static void after_rough(call_t *call, call_end_t end) {
  arch_call_keeping(0, 0, 0, 0, clobber);
  after(call, end);
}
static const trampoline_handlers_t rough = {.before = before_rough, .after = after_rough};

static bool refuse(call_t *call, const uint64_t *arguments) {
  (void)call, (void)arguments;
  __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
  return false;
}
static const trampoline_handlers_t refusing = {.before = refuse, .after = after};

static const trampoline_handlers_t *const kinds[] = {NULL, &counting, &rough, &refusing};

/* ---- arguments and results ------------------------------------------------------------------ */

typedef struct two_doubles {
  double a, b;
} two_doubles_t;
typedef struct mixed {
  long a;
  double b;
} mixed_t;
typedef struct big {
  long v[9];
} big_t;
typedef struct four_floats {
  float v[4];
} four_floats_t;

APART static long many(long a, long b, long c, long d, long e, long f, double x, long g, long h,
                       big_t s, double y, long i) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + (long)(x * 100) +
         (long)(y * 1000) + s.v[0] + s.v[8];
}
APART static double doubles(double a, double b, double c, double d, double e, double f, double g,
                            double h, double i, double j) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j;
}
APART static two_doubles_t give_two(double a) { return (two_doubles_t){a, -a}; }
APART static mixed_t give_mixed(long a, double b) { return (mixed_t){a + 1, b + 1}; }
APART static big_t give_big(long a) {
  big_t s;
  for (int i = 0; i < 9; i++)
    s.v[i] = a + i;
  return s;
}
APART static four_floats_t give_floats(float a) {
  return (four_floats_t){{a, a + 1, a + 2, a + 3}};
}
APART static __int128 give_wide(long a) { return (__int128)a << 64 | 77; }
APART static long double give_long_double(long double a) { return a * 3; }
APART static long double complex give_complex(long double a) { return a + a * 2 * I; }
APART static float give_float(float a, float b) { return a / b; }

APART static int variable(char *out, size_t size, const char *format, ...) {
  va_list list;
  va_start(list, format);
  int n = vsnprintf(out, size, format, list);
  va_end(list);
  return n;
}

static void one_round(const trampoline_handlers_t *calls) {
  big_t s = give_big(100);
  assert_int_equal(HOOKED(many, calls)(1, 2, 3, 4, 5, 6, 1.5, 7, 8, s, 2.25, 9),
                   many(1, 2, 3, 4, 5, 6, 1.5, 7, 8, s, 2.25, 9));
  assert_true(HOOKED(doubles, calls)(1, 2, 3, 4, 5, 6, 7, 8, 9, 10) == 385);
  two_doubles_t two = HOOKED(give_two, calls)(2.5);
  assert_true(two.a == 2.5 && two.b == -2.5);
  mixed_t mixed = HOOKED(give_mixed, calls)(4, 0.5);
  assert_true(mixed.a == 5 && mixed.b == 1.5);
  big_t big = HOOKED(give_big, calls)(7);
  for (int i = 0; i < 9; i++)
    assert_int_equal(big.v[i], 7 + i);
  four_floats_t f = HOOKED(give_floats, calls)(1);
  assert_true(f.v[0] == 1 && f.v[1] == 2 && f.v[2] == 3 && f.v[3] == 4);
  assert_true(HOOKED(give_wide, calls)(5) == ((__int128)5 << 64 | 77));
  assert_true(HOOKED(give_long_double, calls)(1.25L) == 3.75L);
  long double complex z = HOOKED(give_complex, calls)(3);
  assert_true(creall(z) == 3 && cimagl(z) == 6);
  assert_true(HOOKED(give_float, calls)(3, 2) == 1.5f);
  char text[200];
  int n = HOOKED(variable, calls)(text, sizeof text, "%d %g %g %g %g %g %g %g %g %g %g %s %Lg", 1,
                                  .5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, "end", 10.5L);
  assert_string_equal(text, "1 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5 end 10.5");
  assert_int_equal(n, strlen(text));
}

static void any_signature(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    reset(NULL);
    one_round(kinds[i]);
    assert_int_equal(begun, kinds[i] ? 11 : 0);
    assert_int_equal(told(CALL_RETURNED), kinds[i] && kinds[i] != &refusing ? 11 : 0);
  }
}

#if defined(__x86_64__)
typedef long long wide_t __attribute__((vector_size(32)));
__attribute__((target("avx"))) APART static wide_t add_wide(wide_t a, wide_t b) { return a + b; }
__attribute__((target("avx"))) static void upper_halves(void **state) {
  (void)state;
  if (!__builtin_cpu_supports("avx")) SKIP_BECAUSE("no AVX here");
  wide_t a = {1, 2, 3, 4}, b = {10, 20, 30, 40};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    wide_t (*volatile call)(wide_t, wide_t) = HOOKED(add_wide, kinds[i]);
    wide_t sum = call(a, b);
    for (int j = 0; j < 4; j++)
      assert_int_equal(sum[j], 11 * (j + 1));
  }
}

/* Registers that only some languages use: r10, a chain; rcx and r8, results of Swift. */
long special(long);
__asm__(".pushsection .text\n.type special, @function\nspecial:\n"
        "leaq (%rdi,%r10), %rax\nmovl $71, %ecx\nmovl $81, %r8d\nmovl $21, %edx\nret\n"
        ".size special, . - special\n.popsection");
static void other_registers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    void *to = hooked((void *)(uintptr_t)special, kinds[i], 0);
    register long r10 __asm__("r10") = 1000;
    register long r8 __asm__("r8") = 0;
    long di = 5, ax, cx, dx, si;
    __asm__ volatile("subq $136, %%rsp\n\tcall *%%rax\n\taddq $136, %%rsp"
                     : "=a"(ax), "=c"(cx), "=d"(dx), "+r"(r8), "+r"(r10), "+D"(di), "=S"(si)
                     : "a"(to)
                     : "r9", "r11", "memory", "cc");
    assert_int_equal(ax, 1005);
    assert_int_equal(cx, 71);
    assert_int_equal(r8, 81);
    assert_int_equal(dx, 21);
  }
}
#else
/* x8 is where a large result goes, x18 a chain; x0 to x7 may all hold results of Swift. */
long special(long);
__asm__(".pushsection .text\n.type special, %function\nspecial:\n"
        "add x0, x0, x8\nadd x0, x0, x18\nmov x3, #33\nmov x7, #77\nret\n"
        ".size special, . - special\n.popsection");
static void other_registers(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    void *to = hooked((void *)(uintptr_t)special, kinds[i], 0);
    register long x0 __asm__("x0") = 5;
    register long x3 __asm__("x3");
    register long x7 __asm__("x7");
    __asm__ volatile("mov x8, #1000\n\tmov x18, #65536\n\tblr %3"
                     : "+r"(x0), "=r"(x3), "=r"(x7)
                     : "r"(to)
                     : "x1", "x2", "x4", "x5", "x6", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
                       "x15", "x16", "x17", "x18", "x30", "memory", "cc");
    long sum = x0, third = x3, seventh = x7;
    assert_int_equal(sum, 66541);
    assert_int_equal(third, 33);
    assert_int_equal(seventh, 77);
  }
}
#endif

/* ---- shapes of calls ------------------------------------------------------------------------ */

static int (*volatile down_hooked)(int);
APART static int down(int depth) { return depth ? down_hooked(depth - 1) + 1 : 0; }

static void recursion(void **state) {
  (void)state;
  down_hooked = HOOKED(down, &counting);
  assert_int_equal(down_hooked(10000), 10000);
  assert_int_equal(begun, 10001);
  assert_int_equal(told(CALL_RETURNED), 10001);
  assert_null(trampoline_innermost());
}

static int (*last_hooked)(int), (*tail_hooked)(int);
APART static int last(int x) { return x * 2; }
APART static int tail(int x) { return last_hooked(x + 1); }
APART static int long_tail(int x) { return x == 0 ? 7 : tail_hooked(x - 1); }

static void tail_calls(void **state) {
  (void)state;
  last_hooked = HOOKED(last, &counting);
  tail_hooked = HOOKED(tail, &counting);
  assert_int_equal(tail_hooked(3), 8);
  assert_int_equal(begun, 2);
  assert_int_equal(told(CALL_TAIL), 1);
  assert_int_equal(told(CALL_RETURNED), 1);
  tail_hooked = HOOKED(long_tail, &counting);
  reset(NULL);
  assert_int_equal(tail_hooked(100000), 7);
  assert_int_equal(told(CALL_TAIL), 100000);
  assert_int_equal(told(CALL_RETURNED), 1);
  reset(NULL); /* into one that is not told of, by a yes or a no */
  tail_hooked = HOOKED(tail, &counting);
  last_hooked = HOOKED(last, &refusing);
  assert_int_equal(tail_hooked(3), 8);
  assert_int_equal(told(CALL_TAIL), 1);
  assert_int_equal(told(CALL_RETURNED), 0);
  assert_null(trampoline_innermost());
}

static jmp_buf jump_to;
static int (*volatile jump_hooked)(int);
APART static int jump(int depth) {
  if (depth == 0) longjmp(jump_to, 1);
  return jump_hooked(depth - 1) + 1;
}

static void longjmp_over_calls(void **state) {
  (void)state;
  jump_hooked = HOOKED(jump, &counting);
  last_hooked = HOOKED(last, &counting);
  for (volatile int i = 0; i < 1000; i++) {
    if (setjmp(jump_to) == 0) (void)jump_hooked(5);
    assert_int_equal(last_hooked(i), 2 * i);
  }
  assert_int_equal(begun, 7000);
  assert_int_equal(told(CALL_LOST), 6000);
  assert_int_equal(told(CALL_RETURNED), 1000);
  assert_null(trampoline_innermost());
}

/* Through the thunk the compiler cannot know that they return twice: nothing is kept in registers.
 */
static int (*volatile set_hooked)(jmp_buf);
static void (*volatile leap_hooked)(jmp_buf, int);
static pid_t (*volatile split_hooked)(void);
static volatile int rounds, answer;
static volatile pid_t child_pid;

APART static void jump_back_and_forth(void) {
  answer = set_hooked(jump_to);
  if (answer < 10) {
    rounds++;
    leap_hooked(jump_to, rounds);
  }
}

APART static void split_and_end(void) {
  child_pid = split_hooked();
  if (child_pid == 0) _exit(7);
}

static void entry_only(void **state) {
  (void)state;
#define ONLY(function) hooked((void *)(uintptr_t)(function), &counting, TRAMPOLINE_ENTRY_ONLY)
  *(void **)(uintptr_t)&set_hooked = ONLY(_setjmp);
  *(void **)(uintptr_t)&leap_hooked = ONLY(longjmp);
  *(void **)(uintptr_t)&split_hooked = ONLY(vfork);
  jump_back_and_forth();
  assert_int_equal(rounds, 10);
  split_and_end();
  int status;
  assert_int_equal(waitpid(child_pid, &status, 0), child_pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  assert_int_equal(all_ended(), 0);
  assert_int_equal(begun, 1 + 10 + 1);
}

/* ---- threads -------------------------------------------------------------------------------- */

static int stop;
static int (*volatile busy_hooked)(int);
APART static int busy(int x) { return x > 0 ? busy_hooked(x - 1) + 1 : 0; }

#define CALLERS 8
static int callers_seen;

static void *keep_calling(void *unused) {
  (void)unused;
  for (long calls = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); calls++) {
    if (busy_hooked((int)(calls & 15)) != (calls & 15)) return (void *)-1L;
    if (calls == 100) __atomic_fetch_add(&callers_seen, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void switched_meanwhile(void **state) {
  (void)state;
  pthread_t threads[CALLERS];
  busy_hooked = HOOKED(busy, &counting);
  trampoline_t *t = trampoline_find((uint64_t)(uintptr_t)busy);
  stop = callers_seen = 0;
  for (int i = 0; i < CALLERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, keep_calling, NULL), 0);
  /* until all of them were at it, however late they get a CPU */
  for (int i = 0; i < 300 || __atomic_load_n(&callers_seen, __ATOMIC_RELAXED) < CALLERS; i++) {
    trampoline_set(t, kinds[i % 4]);
    usleep(200);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < CALLERS; i++) {
    void *result;
    assert_int_equal(pthread_join(threads[i], &result), 0);
    assert_null(result);
  }
}

static void *call_once(void *unused) {
  (void)unused;
  return (void *)(long)busy_hooked(3);
}

static void short_threads(void **state) {
  (void)state;
  busy_hooked = HOOKED(busy, &counting);
  int count = is_emulated() ? 200 : 2000;
  for (int i = 0; i < count; i++) {
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, call_once, NULL), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((long)result, 3);
  }
  assert_int_equal(begun, 4 * count);
  assert_int_equal(told(CALL_RETURNED), 4 * count);
}

static int (*volatile child_hooked)(int);
APART static int in_child(int x) { return x ? fork() : 0; }

static void fork_inside(void **state) {
  (void)state;
  child_hooked = HOOKED(in_child, &counting);
  busy_hooked = HOOKED(busy, &counting);
  pid_t child = child_hooked(1);
  if (child == 0) { /* returned through the trampoline, in the child */
    pthread_t thread;
    void *result = NULL;
    bool good = busy_hooked(5) == 5 && pthread_create(&thread, NULL, call_once, NULL) == 0 &&
                pthread_join(thread, &result) == 0 && (long)result == 3;
    _exit(good ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- coroutines ----------------------------------------------------------------------------- */

#define COROUTINES 50
static ucontext_t back, contexts[COROUTINES];
static int (*volatile yield_hooked)(int);
APART static int yield(int self) { return swapcontext(&contexts[self], &back); }
static int finished;

static void coroutine(int self) {
  for (int i = 0; i < 20; i++)
    (void)yield_hooked(self);
  finished++;
}

/* Each is left inside a hooked call and resumed in any order, also on another thread. */
static void *resume_all(void *unused) {
  (void)unused;
  for (int i = 0; i < 7 * COROUTINES; i++)
    (void)swapcontext(&back, &contexts[(i * 17 + i / COROUTINES) % COROUTINES]);
  return NULL;
}

static void coroutines(void **state) {
  (void)state;
  yield_hooked = HOOKED(yield, &counting);
  enum { STACK = 32 << 10 };
  char *stacks =
      mmap(NULL, STACK * COROUTINES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < COROUTINES; i++) {
    assert_int_equal(getcontext(&contexts[i]), 0);
    contexts[i].uc_stack.ss_sp = stacks + STACK * i;
    contexts[i].uc_stack.ss_size = STACK;
    contexts[i].uc_link = &back;
    makecontext(&contexts[i], (void (*)(void))(uintptr_t)coroutine, 1, i);
  }
  resume_all(NULL);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, resume_all, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  resume_all(NULL);
  assert_int_equal(finished, COROUTINES);
  assert_int_equal(begun, 20 * COROUTINES);
  assert_int_equal(told(CALL_RETURNED), 20 * COROUTINES);
  busy_hooked = HOOKED(busy, &counting);
  assert_int_equal(busy_hooked(3), 3);
  assert_null(trampoline_innermost());
  munmap(stacks, STACK * COROUTINES);
}

int main(void) {
  const char *why = trampoline_ready();
  if (why) {
    printf("skipped: %s\n", why);
    return 77;
  }
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(any_signature, reset),
    cmocka_unit_test_setup(other_registers, reset),
#if defined(__x86_64__)
    cmocka_unit_test_setup(upper_halves, reset),
#endif
    cmocka_unit_test_setup(recursion, reset),
    cmocka_unit_test_setup(tail_calls, reset),
    cmocka_unit_test_setup(longjmp_over_calls, reset),
    cmocka_unit_test_setup(entry_only, reset),
    cmocka_unit_test_setup(switched_meanwhile, reset),
    cmocka_unit_test_setup(short_threads, reset),
    cmocka_unit_test_setup(fork_inside, reset),
    cmocka_unit_test_setup(coroutines, reset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
