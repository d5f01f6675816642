/* SPDX-License-Identifier: MIT
 *
 * Fault: looks at a flag every 50 microseconds.
 * Expected: wake-ups poll_queue
 */
#include <pthread.h>
#include <unistd.h>
static volatile int ready;
__attribute__((noinline)) void poll_queue(void) {
  while (!ready)
    usleep(50);
}
static void *w(void *u) {
  poll_queue();
  return u;
}
int main() {
  pthread_t t;
  pthread_create(&t, 0, w, 0);
  usleep(1000000);
  ready = 1;
  pthread_join(t, 0);
}
