/* SPDX-License-Identifier: MIT
 *
 * Asks the user's defaults three times, on GNUstep's Foundation.
 */
#import <Foundation/Foundation.h>

int main(void) {
  NSAutoreleasePool *pool = [NSAutoreleasePool new];
  NSUserDefaults *defaults = [NSUserDefaults standardUserDefaults];
  long sum = 0;
  for (int i = 0; i < 3; i++)
    sum += [defaults integerForKey:@"SondeNothing"];
  [pool release];
  return (int)sum;
}
