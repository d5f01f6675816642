/* SPDX-License-Identifier: MIT
 *
 * Works in small calls: work ROUNDS; 0: until it is killed. Prints its pid first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline))

static volatile unsigned sink;

KEEP static unsigned hash(const char *p, unsigned n) {
  unsigned h = 5381;
  while (n--)
    h = h * 33 + (unsigned char)*p++;
  return h;
}
KEEP static int compare(const void *a, const void *b) {
  return *(const unsigned *)a < *(const unsigned *)b ? -1 : 1;
}
KEEP static void one_round(unsigned seed) {
  char text[64];
  unsigned v[100];
  for (unsigned i = 0; i < 100; i++) {
    int n = snprintf(text, sizeof text, "%u-%u", seed, i);
    v[i] = hash(text, (unsigned)n);
  }
  qsort(v, 100, sizeof *v, compare);
  sink += v[50];
}

int main(int argc, char **argv) {
  unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  printf("%d\n", (int)getpid());
  fflush(stdout);
  for (unsigned i = 0; !rounds || i < rounds; i++)
    one_round(i);
  return 0;
}
