// SPDX-License-Identifier: MIT
// does: a service that its user stops with Control-C after two seconds
// record: --sample --wall --stall
// stop: 2.0
// build: gcc -O1 -g
#include <stdio.h>
#include <unistd.h>

static unsigned measure(unsigned seed) {
  for (int i = 0; i < 100000; i++)
    seed = seed * 1664525u + 1013904223u;
  return seed;
}

int main(void) {
  unsigned value = 1;
  for (;;) {
    value = measure(value);
    printf("%u\n", value);
    fflush(stdout);
    usleep(100000);
  }
}
