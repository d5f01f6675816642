// SPDX-License-Identifier: MIT
// does: a timer of 10 Hz updates a display
// record: --sample --wall --stall
// build: gcc -O1 -g
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

static unsigned update(unsigned picture) {
  for (int i = 0; i < 200000; i++)
    picture = picture * 31 + (unsigned)i;
  return picture;
}

int main(void) {
  int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec every = {{0, 100000000}, {0, 100000000}};
  timerfd_settime(timer, 0, &every, NULL);
  unsigned picture = 1;
  for (int i = 0; i < 25; i++) {
    struct pollfd p = {.fd = timer, .events = POLLIN};
    uint64_t ticks;
    if (poll(&p, 1, -1) != 1 || read(timer, &ticks, sizeof ticks) != sizeof ticks) return 1;
    picture = update(picture);
  }
  printf("%u\n", picture);
  close(timer);
}
