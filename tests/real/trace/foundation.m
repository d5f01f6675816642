/* SPDX-License-Identifier: MIT
 *
 * A program on GNUstep's Foundation, whose methods are called by the program and by Foundation:
 * sorting, hashing, describing, catching what was raised. They count themselves; the counts are
 * printed at the end, a line a method.
 */
#import <Foundation/Foundation.h>

static NSCountedSet *counts;
static BOOL counting;

/* Counting sends messages, which are not to be counted. */
static void count(const char *name) {
  static int inside;
  if (!counting || inside) return;
  inside = 1;
  [counts addObject:[NSString stringWithUTF8String:name]];
  inside = 0;
}

@interface Account : NSObject <NSCopying> {
  long number;
}
- (id)initWithNumber:(long)n;
- (long)number;
- (void)fail;
@end

@implementation Account
- (id)initWithNumber:(long)n {
  count("-[Account initWithNumber:]");
  if ((self = [super init])) number = n;
  return self;
}
- (long)number {
  count("-[Account number]");
  return number;
}
- (NSComparisonResult)compare:(Account *)other {
  count("-[Account compare:]");
  long difference = number - [other number];
  return difference < 0 ? NSOrderedAscending : difference ? NSOrderedDescending : NSOrderedSame;
}
- (NSUInteger)hash {
  count("-[Account hash]");
  return (NSUInteger)number % 7;
}
- (BOOL)isEqual:(id)other {
  count("-[Account isEqual:]");
  return [other number] == number;
}
- (id)copyWithZone:(NSZone *)zone {
  (void)zone;
  count("-[Account copyWithZone:]");
  return [self retain];
}
- (NSString *)description {
  count("-[Account description]");
  return [NSString stringWithFormat:@"account %ld", number];
}
- (void)fail {
  count("-[Account fail]");
  [NSException raise:@"Failed" format:@"%@ of %.1f", self, 2.5];
}
@end

static void use(NSMutableArray *all) {
  for (long i = 0; i < 200; i++)
    [all addObject:[[[Account alloc] initWithNumber:i * 7919 % 1009] autorelease]];
  [all sortUsingSelector:@selector(compare:)];
  NSMutableDictionary *names = [NSMutableDictionary dictionary];
  for (Account *account in all)
    [names setObject:[account description] forKey:account];
  for (Account *account in all)
    if (![[names objectForKey:account] isEqual:[account description]]) puts("wrong");
  NSString *joined = [[names allValues] componentsJoinedByString:@","];
  printf("%lu %lu\n", (unsigned long)[names count], (unsigned long)[joined length]);
  for (int i = 0; i < 10; i++) {
    @try {
      [[all objectAtIndex:(NSUInteger)i] fail];
    } @catch (NSException *e) {
      if (i == 9) puts([[e reason] UTF8String]);
    }
  }
}

int main(void) {
  NSAutoreleasePool *pool = [NSAutoreleasePool new];
  counts = [NSCountedSet new];
  counting = YES;
  use([NSMutableArray array]);
  counting = NO;
  for (NSString *name in [[counts allObjects] sortedArrayUsingSelector:@selector(compare:)])
    printf("%lu %s\n", (unsigned long)[counts countForObject:name], [name UTF8String]);
  fflush(stdout);
  [pool release];
  return 0;
}
