/* SPDX-License-Identifier: MIT
 *
 * Objective-C on the GNU runtime: messages whose arguments and results are of every kind, to nil,
 * to super, to classes, left by @throw. Each method counts itself; at the end the counts are
 * printed, a line a method.
 */
#include <objc/objc-exception.h>
#include <objc/runtime.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNTED = 64 };
static struct {
  const char *name;
  long count;
} counted[COUNTED];

static void count(const char *name) {
  int i = 0;
  while (counted[i].name && strcmp(counted[i].name, name))
    i++;
  counted[i].name = name;
  __atomic_fetch_add(&counted[i].count, 1, __ATOMIC_RELAXED);
}

static void check(int holds, const char *what) {
  if (holds) return;
  printf("wrong: %s\n", what);
  exit(1);
}

typedef struct pair {
  double a, b;
} pair_t;
typedef struct mixed {
  long a;
  double b;
} mixed_t;
typedef struct big {
  long v[9];
} big_t;

__attribute__((objc_root_class)) @interface Base {
  Class isa;
  long held;
}
+ (id)make;
- (id)hold:(long)value;
- (long)held;
- (long)add:(long)a to:(long)b;
- (long)overridden:(long)n;
@end

@implementation Base
+ (void)initialize {
}
+ (id)make {
  count("+[Base make]");
  return class_createInstance(self, 0);
}
- (id)hold:(long)value {
  count("-[Base hold:]");
  held = value;
  return self;
}
- (long)held {
  count("-[Base held]");
  return held;
}
- (long)add:(long)a to:(long)b {
  count("-[Base add:to:]");
  return a + b;
}
- (long)overridden:(long)n {
  count("-[Base overridden:]");
  return n;
}
@end

/* Declared and defined. */
#define ELEVEN                                                                                     \
  (double)eleven : (double)a b : (double)b c : (double)c d : (double)d e : (double)e f             \
      : (double)f g : (double)g h : (double)h i : (double)i j : (double)j k : (double)k

@interface Derived : Base
- (pair_t)pair:(double)a and:(double)b;
- (mixed_t)mixed:(long)a and:(double)b;
- (big_t)big:(long)first;
- (long double)exact:(long double)x;
- ELEVEN;
- (long)sum:(int)n, ...;
- (long)recurse:(long)n;
- (void)throwAfter:(long)n;
@end

@implementation Derived
- (long)overridden:(long)n {
  count("-[Derived overridden:]");
  return [super overridden:n + 1] * 2;
}
- (pair_t)pair:(double)a and:(double)b {
  count("-[Derived pair:and:]");
  return (pair_t){b, a};
}
- (mixed_t)mixed:(long)a and:(double)b {
  count("-[Derived mixed:and:]");
  return (mixed_t){a + 1, b + 1};
}
- (big_t)big:(long)first {
  count("-[Derived big:]");
  big_t r;
  for (int i = 0; i < 9; i++)
    r.v[i] = first + i;
  return r;
}
- (long double)exact:(long double)x {
  count("-[Derived exact:]");
  return x + 1;
}
- ELEVEN {
  count("-[Derived eleven:b:c:d:e:f:g:h:i:j:k:]");
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k;
}
- (long)sum:(int)n, ... {
  count("-[Derived sum:]");
  long sum = 0;
  va_list list;
  va_start(list, n);
  while (n--)
    sum += (long)va_arg(list, double);
  va_end(list);
  return sum;
}
- (long)recurse:(long)n {
  count("-[Derived recurse:]");
  return n ? [self recurse:n - 1] + 1 : 0;
}
- (void)throwAfter:(long)n {
  count("-[Derived throwAfter:]");
  if (!n) @throw self;
  [self throwAfter:n - 1];
}
@end

@interface Derived (More)
- (long)ofCategory;
@end
@implementation Derived (More)
- (long)ofCategory {
  count("-[Derived ofCategory]");
  return 7;
}
@end

static void all_kinds(Derived *d, long i) {
  Derived *none = nil;
  double x = (double)i;
  pair_t p = [d pair:x and:x + 1];
  check(p.a == x + 1 && p.b == x, "a pair of doubles");
  mixed_t m = [d mixed:i and:x];
  check(m.a == i + 1 && m.b == x + 1, "an integer and a double");
  big_t b = [d big:i];
  check(b.v[0] == i && b.v[8] == i + 8, "a large structure");
  check([d exact:(long double)i] == (long double)i + 1, "a long double");
  check([d eleven:x b:1 c:1 d:1 e:1 f:1 g:1 h:1 i:1 j:1 k:x] == 12 * x + 54, "eleven doubles");
  check([d sum:9, 1., 2., 3., 4., 5., 6., 7., 8., 9.] == 45, "variable arguments");
  check([[d hold:i] held] == i && [d add:i to:1] == i + 1, "what is inherited");
  check([d overridden:i] == (i + 1) * 2, "what goes on to super");
  check([none held] == 0 && [none hold:1] == nil, "nil");
  check([d recurse:5] == 5 && [d ofCategory] == 7, "recursion");
}

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 10;
  Derived *d = [Derived make];
  for (long i = 0; i < rounds; i++) {
    all_kinds(d, i);
    @try {
      [d throwAfter:3];
      check(0, "thrown");
    } @catch (Derived *caught) {
      check(caught == d, "what was thrown");
    }
  }
  for (int i = 0; counted[i].name; i++)
    printf("%ld %s\n", counted[i].count, counted[i].name);
  return 0;
}
