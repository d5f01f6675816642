/* SPDX-License-Identifier: MIT
 *
 * A program that declares its turns, for tests/real/stall_declared.py. Prints the statuses, and how
 * long the two that are too long were, in microseconds.
 */
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <sonde/stall.h>

#define CULPRIT __attribute__((noinline, noclone)) static

CULPRIT void misses_a_heartbeat(void) { usleep(300000); }
CULPRIT void exceeds_its_scope(void) { usleep(500000); }
CULPRIT void is_expected(void) { usleep(300000); }

static long now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(void) {
  long began = 0, missed, exceeded;
  struct epoll_event event;
  int queue = epoll_create1(0), all = 0;
  for (int i = 0; i < 8; i++) {
    epoll_wait(queue, &event, 1, 5);
    if (i == 6) {
      all |= sonde_stall_expect(400);
      is_expected();
    }
  }
  for (int i = 0; i < 5; i++) {
    all |= sonde_heartbeat();
    began = now_us();
    usleep(20000);
  }
  misses_a_heartbeat();
  missed = now_us() - began;
  all |= sonde_heartbeat();
  all |= sonde_stall_begin(400);
  is_expected();
  all |= sonde_stall_end();
  is_expected();
  all |= sonde_stall_begin(400);
  began = now_us();
  exceeds_its_scope();
  exceeded = now_us() - began;
  all |= sonde_stall_end();
  printf("%d %d %ld %ld\n", all, sonde_stall_expect(10), missed, exceeded);
  return 0;
}
