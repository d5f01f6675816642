/* SPDX-License-Identifier: MIT
 *
 * One Objective-C method is replaced and restored (sonde/objc.h).
 *
 *   gcc -x objective-c objc.m -lsonde -lobjc && ./a.out
 */
#include <objc/objc.h>
#include <objc/Object.h>
#include <stdio.h>

#include <sonde/objc.h>

@interface Account : Object
+ (int)rate:(int)years;
@end

@implementation Account
+ (int)rate:(int)years {
  return years * 10;
}
@end

static int (*next_rate)(id self, SEL selector, int years);

static int my_rate(id self, SEL selector, int years) {
  printf("rate: is called with %d\n", years);
  return next_rate(self, selector, years) + 1;
}

int main(void) {
  sonde_objc_exchange_t *exchange;
  int status = sonde_objc_exchange("+[Account rate:]", (void *)my_rate, (void **)&next_rate, &exchange);
  if (status < 0) {
    fprintf(stderr, "cannot replace: %s\n", sonde_strerror(status));
    return 2;
  }
  printf("replaced: %d\n", [Account rate:2]);
  sonde_objc_restore(exchange);
  printf("restored: %d\n", [Account rate:2]);
  return 0;
}
