/* SPDX-License-Identifier: MIT
 *
 * Fault: an event loop that computes.
 * Expected: stall rebuild_index
 */
#include <poll.h>
#include <unistd.h>
#include <sys/timerfd.h>
volatile double x;
__attribute__((noinline)) void rebuild_index(void) {
  for (long i = 0; i < 300000000; i++)
    x += i;
}
int main() {
  int t = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec it = {{0, 20000000}, {0, 20000000}};
  timerfd_settime(t, 0, &it, 0);
  for (int i = 0; i < 50; i++) {
    struct pollfd p = {t, POLLIN, 0};
    poll(&p, 1, -1);
    long long v;
    read(t, &v, 8);
    if (i == 25) rebuild_index();
  }
}
