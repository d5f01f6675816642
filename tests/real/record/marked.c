/* SPDX-License-Identifier: MIT
 *
 * Blocks between moments that have names: 3 of 1000 bytes before the first mark, 5 between it and
 * the second, which stay, and 7 after that. It says where one of the 5 lies.
 */
#include <stdio.h>
#include <stdlib.h>

#include <sonde/sonde.h>

static char *held[15];

__attribute__((noinline)) static void hold(int from, int to) {
  for (int i = from; i < to; i++)
    held[i] = malloc(1000);
}

int main(void) {
  static char buffer[256]; /* or stdio would allocate one */
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  hold(0, 3);
  sonde_mark("loaded");
  hold(3, 8);
  sonde_mark("served");
  hold(8, 15);
  printf("%p\n", (void *)held[5]);
  return 0;
}
