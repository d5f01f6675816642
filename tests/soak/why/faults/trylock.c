/* SPDX-License-Identifier: MIT
 *
 * Fault: spins on a lock.
 * Expected: busy-loop enter_critical
 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void enter_critical(void) {
  while (pthread_mutex_trylock(&m) != 0)
    ;
  pthread_mutex_unlock(&m);
}
static void *w(void *u) {
  enter_critical();
  return u;
}
int main() {
  pthread_t t;
  pthread_mutex_lock(&m);
  pthread_create(&t, 0, w, 0);
  usleep(900000);
  pthread_mutex_unlock(&m);
  pthread_join(t, 0);
}
