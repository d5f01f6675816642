/* SPDX-License-Identifier: MIT
 *
 * Fault: polls with a timeout of 0.
 * Expected: busy-loop event_loop
 */
#include <poll.h>
#include <unistd.h>
#include <time.h>
static int fds[2];
__attribute__((noinline)) void event_loop(void) {
  time_t end = time(0) + 2;
  struct pollfd p = {fds[0], POLLIN, 0};
  long n = 0;
  while (n++ % 1000 || time(0) < end) {
    if (poll(&p, 1, 0) > 0) break;
  }
}
int main() {
  pipe(fds);
  event_loop();
}
