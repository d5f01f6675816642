/* SPDX-License-Identifier: MIT
 *
 * Objective-C messages while they are traced: every register that can hold an argument or a result
 * is as it was, in every variant of objc_msgSend that the compiler uses; stacks lead through the
 * trampoline. What the trace says is checked by who reads it (run.py), against what is sent here.
 */
#include <complex.h>
#include <objc/message.h>
#include <objc/runtime.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "sonde/objc.h"
#include "sonde/stack.h"
#include "sonde/trace.h"
#include "victim.h"

typedef struct pair {
  double a, b;
} pair_t;
typedef struct four {
  double v[4];
} four_t;
typedef struct large {
  long v[9];
} large_t;
typedef float lanes_t __attribute__((ext_vector_type(4)));

__attribute__((objc_root_class)) @interface Base {
  Class isa;
@public
  long total;
}
@end

@implementation Base
- (long)add:(long)a {
  return total += a;
}
+ (long)version {
  return 7;
}
- (large_t)large:(long)a {
  return (large_t){{a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8}};
}
@end

@interface Account : Base
@end

@implementation Account
- (long)add:(long)a {
  return [super add:a] + 1000;
}
- (long)sum:(long)a b:(long)b c:(long)c d:(long)d e:(long)e f:(long)f g:(char)g h:(long)h i:(short)i {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}
- (double)mix:(double)a b:(double)b c:(double)c d:(double)d e:(double)e f:(double)f g:(double)g
            h:(double)h i:(double)i n:(int)n {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + n;
}
- (lanes_t)lanes:(lanes_t)a b:(lanes_t)b c:(lanes_t)c d:(lanes_t)d e:(lanes_t)e f:(lanes_t)f
               g:(lanes_t)g h:(lanes_t)h {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
- (float)single:(float)a {
  return a * 2;
}
- (pair_t)pair:(double)a {
  return (pair_t){a, a + 1};
}
- (four_t)four:(double)a {
  return (four_t){{a, a + 1, a + 2, a + 3}};
}
- (large_t)large:(long)a {
  return [super large:a];
}
- (long double)longer:(long double)a {
  return a / 3;
}
- (long double complex)twice:(long double)a {
  return a + 2 * a * I;
}
- (double)all:(int)count, ... {
  va_list list;
  double sum = 0;
  va_start(list, count);
  for (int i = 0; i < count; i++)
    sum += i % 2 ? va_arg(list, double) : va_arg(list, long);
  va_end(list);
  return sum;
}
- (int)stack:(uintptr_t *)pcs {
  return sonde_stack(pcs, 64);
}
- (long)last:(long)a {
  return [self add:a]; /* a tail call where the compiler makes one */
}
@end

/* Its instances are no memory. */
@interface Tagged : Base
@end
@implementation Tagged
- (long)value {
  return (long)((uintptr_t)self >> 1 & 0xff);
}
@end

/* Not traced. */
@interface Other : Base
@end
@implementation Other
- (long)quiet {
  return 3;
}
@end

#if defined(__aarch64__)
#define TAGGED 0x8000000000000000u
#else
#define TAGGED 1u
#endif

static Account *account(void) { return class_createInstance(objc_lookUpClass("Account"), 0); }

static bool numbers_arrive(Account *a) {
  return [a sum:1 b:2 c:3 d:4 e:5 f:6 g:7 h:8 i:9] == 285 &&
         [a mix:1 b:2 c:3 d:4 e:5 f:6 g:7 h:8 i:9 n:10] == 295 && [a single:1.5f] == 3 &&
         [a all:8, 1L, 2.0, 3L, 4.0, 5L, 6.0, 7L, 8.0] == 36;
}

static bool vectors_arrive(Account *a) {
  lanes_t v = {1, 10, 100, 1000};
  lanes_t sum = [a lanes:v b:v * 2 c:v * 3 d:v * 4 e:v * 5 f:v * 6 g:v * 7 h:v * 8];
  for (int i = 0; i < 4; i++)
    if (sum[i] != v[i] * 204) return false;
  return true;
}

static bool results_come_back(Account *a) {
  pair_t pair = [a pair:5];
  four_t four = [a four:6];
  large_t large = [a large:7];
  long double complex number = [a twice:4];
  return pair.a == 5 && pair.b == 6 && four.v[0] == 6 && four.v[3] == 9 && large.v[0] == 7 &&
         large.v[8] == 15 && [a longer:12] == 4 && creall(number) == 4 && cimagl(number) == 8;
}

static bool nil_gives_nothing(void) {
  Account *volatile none = nil;
  pair_t pair = [none pair:5];
  return [none add:3] == 0 && [none mix:1 b:2 c:3 d:4 e:5 f:6 g:7 h:8 i:9 n:10] == 0 &&
         [none longer:3] == 0 && pair.a == 0 && pair.b == 0;
}

static bool others_go_on(void) {
  Other *other = class_createInstance(objc_lookUpClass("Other"), 0);
  Tagged *tagged = (__bridge Tagged *)(void *)(uintptr_t)(TAGGED | 42 << 1);
  return [other quiet] == 3 && victim_call() > 0 && [tagged value] == 42 && [Account version] == 7;
}

__attribute__((noinline)) static bool stack_leads_through(Account *a) {
  uintptr_t pcs[64];
  int count = [a stack:pcs];
  static const char *const traced[] = {"-[Account stack:]", "sonde_trampoline",
                                       "stack_leads_through", "check_messages", NULL};
  return count > 4 && has_chain(pcs, count, traced) && is_named(pcs[count - 1], "mac_start");
}

static void *send_many(void *argument) {
  Account *a = account();
  for (int i = 0; i < 500; i++)
    [a last:i];
  *(long *)argument = a->total;
  return NULL;
}

static bool threads_send(void) {
  pthread_t threads[3];
  long totals[3] = {0};
  for (int i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, send_many, &totals[i]);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  return totals[0] == 124750 && totals[1] == 124750 && totals[2] == 124750;
}

static long (*original)(id, SEL, long);
static long replaced(id self, SEL selector, long a) { return original(self, selector, a) + 5; }

static long (*original_version)(id, SEL);
static long next_version(id self, SEL selector) { return original_version(self, selector) + 1; }
static bool is_class_method_exchanged(void) {
  sonde_objc_exchange_t *exchange;
  if (sonde_objc_exchange("+[Base version]", (void *)next_version, (void **)&original_version,
                          &exchange) != 0)
    return false;
  return [Account version] == 8 && sonde_objc_restore(exchange) == SONDE_OK &&
         [Account version] == 7;
}

static bool is_exchanged_and_back(void) {
  Account *a = account();
  sonde_objc_exchange_t *exchange;
  if (sonde_objc_exchange("-[Base add:]", (void *)replaced, (void **)&original, &exchange) != 0)
    return false;
  bool good = [a add:1] == 1006 && sonde_objc_restore(exchange) == SONDE_OK && [a add:1] == 1002;
  good = good && is_class_method_exchanged();
  return good && sonde_objc_exchange("-[Base none]", (void *)replaced, (void **)&original,
                                     &exchange) == SONDE_ENOTFOUND;
}

/* All in `check_messages`, once traced and once not. */
static void send_all(const char *when) {
  say(when);
  say("\n");
  Account *a = account();
  check([a add:5] == 1005 && [a last:6] == 1011, "a method, and that of its superclass");
  check(numbers_arrive(a), "integers, doubles, those on the stack and variable ones arrive");
  check(vectors_arrive(a), "vectors arrive and come back");
  check(results_come_back(a), "results come back in every form");
  check(nil_gives_nothing(), "messages to nil give nothing");
  check(others_go_on(), "class methods, tagged objects, a library, and what is not traced");
  check(threads_send(), "threads send at once");
}

void check_messages(const char *path) {
  check(is_exchanged_and_back(), "a method is exchanged by class and selector, and put back");
  check(sonde_trace_calls("-[Account *],-[Base *],+[Base *],-[Tagged *],victim*:victim_c*") == SONDE_OK,
        "messages and a library's functions are to be traced");
  check(sonde_trace_calls("*") == SONDE_EBUSY, "once");
  send_all("while tracing is off");
  check(sonde_trace_start(0) == 0, "tracing begins");
  send_all("while messages are traced");
  check(stack_leads_through(account()), "a stack leads through the trampoline, to its end");
  run_regions();
  check(sonde_trace_stop() == 0, "tracing ends");
  send_all("after it");
  /* Which lines there are is for run.py to say: a thread that waits for a CPU makes others' parts of
   * the whole so small that they are left out. */
  int lines = sonde_trace_print(1);
  char line[32];
  snprintf(line, sizeof line, "%d lines\n", lines);
  say(line);
  check(lines > 0, "the tree is printed");
  check(sonde_trace_save(path) == 0, "the trace is saved");
}
