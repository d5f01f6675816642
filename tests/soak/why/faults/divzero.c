/* SPDX-License-Identifier: MIT
 *
 * Fault: divides by zero.
 * Expected: crash average
 */
#include <unistd.h>
volatile int z;
__attribute__((noinline)) int average(int a, int n) { return a / n; }
int main() {
  usleep(10000);
  return average(10, z);
}
