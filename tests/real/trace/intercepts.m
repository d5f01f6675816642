/* SPDX-License-Identifier: MIT
 *
 * sonde/intercept.h on Objective-C methods: arguments, results, exceptions, nested calls of super, and
 * the end of an interception. Exits with the number of the first check that fails, or 0.
 */
#include <objc/objc.h>
#include <objc/runtime.h>
#include <sonde/intercept.h>
#include <stdio.h>
#include <stdlib.h>

@interface Root {
  Class isa;
  long held;
}
+ (id)make;
- (long)add:(long)a to:(long)b;
- (double)half:(double)of;
- (void)fail;
@end

@implementation Root
+ (id)make {
  return class_createInstance(self, 0);
}
- (long)add:(long)a to:(long)b {
  held += a;
  return a + b;
}
- (double)half:(double)of {
  return of / 2;
}
- (void)fail {
  @throw self;
}
@end

@interface Derived : Root
@end

@implementation Derived
- (long)add:(long)a to:(long)b {
  return [super add:a to:b] * 10;
}
@end

typedef struct seen {
  int begun, returned, thrown;
  long first, second, result;
  double real;
  id receiver;
} seen_t;

static void before(sonde_call_t *call, void *context) {
  seen_t *seen = context;
  seen->begun++;
  seen->receiver = (id)sonde_call_argument(call, 0);
  seen->first = (long)sonde_call_argument(call, 2);
  seen->second = (long)sonde_call_argument(call, 3);
  sonde_call_set_data(call, (uintptr_t)seen->begun);
}

static void after(sonde_call_t *call, sonde_call_end_t end, void *context) {
  seen_t *seen = context;
  if (sonde_call_data(call) != (uintptr_t)seen->begun) exit(99);
  seen->returned += end == SONDE_CALL_RETURNED;
  seen->thrown += end == SONDE_CALL_THROWN;
  seen->result = (long)sonde_call_result(call, 0);
  seen->real = sonde_call_result_double(call, 0);
}

static int check_number;
static void check(BOOL good) {
  check_number++;
  if (good) return;
  printf("check %d failed\n", check_number);
  exit(check_number);
}

static sonde_intercept_t *intercept(const char *target, seen_t *seen) {
  sonde_intercept_t *handle = NULL;
  sonde_intercept_request_t request = {target, before, after, seen};
  check(sonde_intercept_add(&request, &handle) == 1);
  return handle;
}

int main(void) {
  seen_t sum = {0}, own = {0}, real = {0}, failed = {0};
  id root = [Root make], derived = [Derived make];
  IMP plain = class_getMethodImplementation(objc_getClass("Root"), sel_registerName("add:to:"));
  sonde_intercept_t *handle = intercept("-[Root add:to:]", &sum);
  check([root add:3 to:4] == 7);
  check(sum.begun == 1 && sum.returned == 1 && sum.first == 3 && sum.second == 4 && sum.result == 7);
  check(sum.receiver == root);
  sonde_intercept_t *of_derived = intercept("-[Derived add:to:]", &own);
  check([derived add:5 to:6] == 110);
  check(own.begun == 1 && own.result == 110 && sum.begun == 2 && sum.result == 11 && sum.receiver == derived);
  sonde_intercept_t *half = intercept("-[Root half:]", &real);
  check([root half:5] == 2.5 && real.real == 2.5);
  sonde_intercept_t *fail = intercept("-[Root fail]", &failed);
  BOOL caught = NO;
  @try {
    [root fail];
  } @catch (id thrown) {
    caught = thrown == root;
  }
  check(caught && failed.begun == 1 && failed.thrown == 1 && failed.returned == 0);
  check(sonde_intercept_remove(handle) == SONDE_OK);
  check([root add:1 to:1] == 2 && sum.begun == 2);
  check([derived add:1 to:1] == 20 && own.begun == 2);
  check(class_getMethodImplementation(objc_getClass("Root"), sel_registerName("add:to:")) == plain);
  check(sonde_intercept_remove(of_derived) == SONDE_OK && sonde_intercept_remove(half) == SONDE_OK &&
        sonde_intercept_remove(fail) == SONDE_OK);
  sonde_intercept_request_t nobody = {"-[Root missing]", before, after, &sum};
  check(sonde_intercept_add(&nobody, &handle) == SONDE_ENOTFOUND);
  return 0;
}
