/* SPDX-License-Identifier: MIT
 *
 * Fault: opens streams and does not close them.
 * Expected: descriptor-leak read_config
 */
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) int read_config(void) {
  FILE *f = fopen("/etc/hostname", "r");
  char b[10];
  return f ? (int)fread(b, 1, 10, f) : 0;
}
int main() {
  for (int i = 0; i < 500; i++) {
    read_config();
    usleep(1500);
  }
}
