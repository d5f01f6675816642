/* SPDX-License-Identifier: MIT
 *
 * Fault: an event loop that sleeps.
 * Expected: stall wait_for_reply
 */
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
__attribute__((noinline)) void wait_for_reply(void) { usleep(400000); }
__attribute__((noinline)) void on_timer(int n) {
  if (n == 20 || n == 30) wait_for_reply();
}
int main() {
  int t = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec it = {{0, 20000000}, {0, 20000000}};
  timerfd_settime(t, 0, &it, 0);
  int e = epoll_create1(0);
  struct epoll_event ev = {EPOLLIN, {0}};
  epoll_ctl(e, EPOLL_CTL_ADD, t, &ev);
  for (int i = 0; i < 50; i++) {
    struct epoll_event r;
    epoll_wait(e, &r, 1, -1);
    long long v;
    read(t, &v, 8);
    on_timer(i);
  }
}
