/* SPDX-License-Identifier: MIT
 *
 * A program that declares its turns, for tests/real/stall_declared.py. Prints the statuses.
 */
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <sonde/stall.h>

#define CULPRIT __attribute__((noinline, noclone)) static

CULPRIT void misses_a_heartbeat(void) { usleep(300000); }
CULPRIT void exceeds_its_scope(void) { usleep(500000); }
CULPRIT void is_expected(void) { usleep(300000); }

int main(void) {
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
    usleep(20000);
  }
  misses_a_heartbeat();
  all |= sonde_heartbeat();
  all |= sonde_stall_begin(400);
  is_expected();
  all |= sonde_stall_end();
  is_expected();
  all |= sonde_stall_begin(400);
  exceeds_its_scope();
  all |= sonde_stall_end();
  printf("%d %d\n", all, sonde_stall_expect(10));
  return 0;
}
