// SPDX-License-Identifier: MIT
// does: sleeps nearly all of the time
// record: --sample --wall --stall
// build: gcc -O1 -g
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long check(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec % 60;
}

int main(void) {
  long sum = 0;
  for (int i = 0; i < 5; i++) {
    sum += check();
    usleep(500000);
  }
  printf("%ld\n", sum);
}
