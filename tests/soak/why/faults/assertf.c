/* SPDX-License-Identifier: MIT
 *
 * Fault: an assertion fails.
 * Expected: crash check_balance
 */
#include <assert.h>
#include <unistd.h>
__attribute__((noinline)) void check_balance(int n) { assert(n >= 0); }
int main() {
  usleep(50000);
  check_balance(-1);
}
