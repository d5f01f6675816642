/* SPDX-License-Identifier: MIT
 *
 * Fault: an event loop that waits for a lock.
 * Expected: stall handle_tick
 */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/timerfd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void compact(void) {
  pthread_mutex_lock(&m);
  usleep(500000);
  pthread_mutex_unlock(&m);
}
static void *w(void *u) {
  usleep(300000);
  compact();
  return u;
}
__attribute__((noinline)) void handle_tick(void) {
  pthread_mutex_lock(&m);
  pthread_mutex_unlock(&m);
}
int main() {
  pthread_t th;
  pthread_create(&th, 0, w, 0);
  int t = timerfd_create(CLOCK_MONOTONIC, 0);
  struct itimerspec it = {{0, 20000000}, {0, 20000000}};
  timerfd_settime(t, 0, &it, 0);
  for (int i = 0; i < 50; i++) {
    struct pollfd p = {t, POLLIN, 0};
    poll(&p, 1, -1);
    long long v;
    read(t, &v, 8);
    handle_tick();
  }
}
