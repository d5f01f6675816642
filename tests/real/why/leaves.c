/* SPDX-License-Identifier: MIT
 *
 * Leaves what it reads to its end: 900 of 1,000 blocks come from one function.
 */
#include <stdlib.h>
#include <string.h>

static char *volatile blocks[1000];

__attribute__((noinline)) static void read_line(int i) {
  blocks[i] = memset(malloc(5000), i, 5000);
}

__attribute__((noinline)) static void add_field(int i) {
  blocks[i] = memset(malloc(5000), i, 5000);
}

int main(void) {
  for (int i = 0; i < 1000; i++)
    i % 10 ? read_line(i) : add_field(i);
}
