/* SPDX-License-Identifier: MIT
 *
 * Fault: copies each word into a new block.
 * Expected: temporary-allocations add_word
 */
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
static long sum;
__attribute__((noinline)) void add_word(const char *w, size_t n) {
  char *c = malloc(n + 1);
  memcpy(c, w, n);
  c[n] = 0;
  sum += c[0] + c[n / 2];
  free(c);
}
int main() {
  for (long i = 0; i < 15000000; i++)
    add_word("hello world", 11);
  printf("%ld\n", sum);
}
