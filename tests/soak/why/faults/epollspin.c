/* SPDX-License-Identifier: MIT
 *
 * Fault: does not read what epoll_wait reports.
 * Expected: busy-loop run_loop
 */
#include <sys/epoll.h>
#include <unistd.h>
#include <time.h>
static int fds[2];
__attribute__((noinline)) void run_loop(int e) {
  struct epoll_event r;
  clock_t end = clock() + CLOCKS_PER_SEC / 2;
  int n = 0;
  while (n++ % 4096 || clock() < end) {
    epoll_wait(e, &r, 1, 1000);
  }
}
int main() {
  pipe(fds);
  write(fds[1], "x", 1);
  int e = epoll_create1(0);
  struct epoll_event ev = {EPOLLIN, {0}};
  epoll_ctl(e, EPOLL_CTL_ADD, fds[0], &ev);
  run_loop(e);
}
