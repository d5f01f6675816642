/* SPDX-License-Identifier: MIT
 *
 * Healthy: a large array.
 */
#include <stdlib.h>
#include <stdio.h>
int main() {
  size_t n = 0, cap = 16;
  long *v = malloc(cap * 8);
  for (long i = 0; i < 30000000; i++) {
    if (n == cap) {
      cap *= 2;
      v = realloc(v, cap * 8);
    }
    v[n++] = i;
  }
  printf("%ld\n", v[n / 2]);
  free(v);
}
