/* SPDX-License-Identifier: MIT
 *
 * Healthy: a timer of 5 ms.
 */
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <stdlib.h>
int main() {
  int t = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec it = {{0, 5000000}, {0, 5000000}};
  timerfd_settime(t, 0, &it, 0);
  for (int i = 0; i < 400; i++) {
    struct pollfd p = {t, POLLIN, 0};
    poll(&p, 1, -1);
    long long v;
    read(t, &v, 8);
    char *x = malloc(1000);
    free(x);
  }
}
