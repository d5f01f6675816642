/* SPDX-License-Identifier: MIT
 *
 * Fault: never stops calling itself.
 * Expected: crash depth
 */
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) int depth(int n) {
  char b[200];
  memset(b, n, 200);
  return b[n % 200] + depth(n + 1) + 1;
}
int main() { printf("%d\n", depth(1)); }
