/* SPDX-License-Identifier: MIT
 *
 * Healthy: threads that take turns to wait for work.
 */
#include <pthread.h>
#include <poll.h>
#include <unistd.h>
#include <sys/eventfd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int e;
static int take(void) {
  pthread_mutex_lock(&m);
  struct pollfd p = {e, POLLIN, 0};
  poll(&p, 1, 2000);
  unsigned long v = 0;
  int n = p.revents ? (int)read(e, &v, 8) : 0;
  pthread_mutex_unlock(&m);
  return n > 0;
}
static void *w(void *u) {
  while (take())
    usleep(2000);
  return u;
}
int main() {
  e = eventfd(0, EFD_SEMAPHORE);
  pthread_t t[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&t[i], 0, w, 0);
  for (int i = 0; i < 20; i++) {
    usleep(60000);
    unsigned long v = 1;
    write(e, &v, 8);
  }
  _exit(0);
}
