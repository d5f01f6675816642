/* SPDX-License-Identifier: MIT
 *
 * Fault: starts a program.
 * Expected: sensitive-call run_hook
 */
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void run_hook(void) {
  if (system("true")) _exit(1);
}
int main() {
  usleep(100000);
  run_hook();
}
