/* SPDX-License-Identifier: MIT
 *
 * Methods of a class exchanged and put back, alone and in chains, in every order. Ends with 0, or
 * the line that does not hold.
 */
#include <objc/runtime.h>
#include <pthread.h>

#include "sonde/objc.h"

#define HOLDS(what)                                                                                \
  if (!(what)) return __LINE__ % 255 + 1

__attribute__((objc_root_class)) @interface Base {
  Class isa;
}
- (long)add:(long)a to:(double)b;
+ (long)answer;
@end
@implementation Base
+ (void)initialize {
}
- (long)add:(long)a to:(double)b {
  return a + (long)b;
}
+ (long)answer {
  return 42;
}
@end
@interface Derived : Base
@end
@implementation Derived
@end

typedef long add_t(id self, SEL selector, long a, double b);
static add_t *before[3];
static long add_1(id self, SEL selector, long a, double b) { return before[0](self, selector, a, b) + 1; }
static long add_10(id self, SEL selector, long a, double b) { return before[1](self, selector, a, b) + 10; }
static long add_100(id self, SEL selector, long a, double b) { return before[2](self, selector, a, b) + 100; }
static add_t *const mine[3] = {add_1, add_10, add_100};
static const long adds[3] = {1, 10, 100};

static long (*answer)(id self, SEL selector);
static long other_answer(id self, SEL selector) { return -answer(self, selector); }

static volatile int done;
static void *send(void *object) {
  while (!done) {
    long r = [(Base *)object add:1 to:2.5] - 3;
    if (r < 0 || r > 111) return object;
  }
  return NULL;
}

static int in_every_order(Base *object) {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (int k = 0; k < 6; k++) {
    sonde_objc_exchange_t *e[3];
    long sum = 3;
    for (int i = 0; i < 3; i++) {
      HOLDS(sonde_objc_exchange("-[Base add:to:]", (void *)mine[i], (void **)&before[i], &e[i]) == 0);
      sum += adds[i];
      HOLDS([object add:1 to:2.5] == sum);
    }
    for (int i = 0; i < 3; i++) {
      HOLDS(sonde_objc_restore(e[orders[k][i]]) == 0);
      sum -= adds[orders[k][i]];
      HOLDS([object add:1 to:2.5] == sum);
      HOLDS(sonde_objc_restore(e[orders[k][i]]) == SONDE_ENOTFOUND);
    }
  }
  return 0;
}

int main(void) {
  Base *object = class_createInstance(objc_getClass("Derived"), 0);
  Method m = class_getInstanceMethod(objc_getClass("Base"), @selector(add:to:));
  IMP imp = method_getImplementation(m);
  sonde_objc_exchange_t *e, *f;
  void *unused;
  HOLDS(in_every_order(object) == 0);
  HOLDS(method_getImplementation(m) == imp);

  HOLDS(sonde_objc_exchange("+[Base answer]", (void *)other_answer, (void **)&answer, &e) == 0);
  HOLDS([Base answer] == -42 && [Derived answer] == -42);
  HOLDS(sonde_objc_restore(e) == 0 && [Base answer] == 42);

  /* What somebody else has put there stays. */
  HOLDS(sonde_objc_exchange("-[Base add:to:]", (void *)add_1, (void **)&before[0], &e) == 0);
  method_setImplementation(m, (IMP)add_10);
  HOLDS(sonde_objc_restore(e) == SONDE_EBUSY && method_getImplementation(m) == (IMP)add_10);
  method_setImplementation(m, (IMP)add_1);
  HOLDS(sonde_objc_restore(e) == 0 && method_getImplementation(m) == imp);

  static const char *const absent[] = {"-[Nobody add:to:]", "-[Base nothing]", "-[Derived add:to:]",
                                       "+[Derived answer]"};
  static const char *const wrong[] = {"", "-", "Base add:to:", "-[Base]", "-[ add]", "-[Base add",
                                      "-[Base add] ", "-[Base ]"};
  for (int i = 0; i < 4; i++)
    HOLDS(sonde_objc_exchange(absent[i], (void *)add_1, &unused, &f) == SONDE_ENOTFOUND);
  for (int i = 0; i < 8; i++)
    HOLDS(sonde_objc_exchange(wrong[i], (void *)add_1, &unused, &f) == SONDE_EINVAL);

  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, send, object);
  for (int i = 0; i < 200; i++)
    HOLDS(in_every_order(object) == 0);
  done = 1;
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    HOLDS(!failed);
  }
  HOLDS(method_getImplementation(m) == imp);
  return 0;
}
