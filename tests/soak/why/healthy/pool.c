/* SPDX-License-Identifier: MIT
 *
 * Healthy: a pool of threads with a queue.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <math.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int jobs, stop;
volatile double out;
static void work(void) {
  double x = 0;
  for (int i = 1; i < 20000; i++)
    x += sqrt(i);
  out = x;
}
static void *w(void *u) {
  for (;;) {
    pthread_mutex_lock(&m);
    while (!jobs && !stop)
      pthread_cond_wait(&c, &m);
    if (!jobs && stop) {
      pthread_mutex_unlock(&m);
      return u;
    }
    jobs--;
    pthread_mutex_unlock(&m);
    work();
  }
}
int main() {
  pthread_t t[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&t[i], 0, w, 0);
  for (int i = 0; i < 5000; i++) {
    pthread_mutex_lock(&m);
    jobs++;
    pthread_cond_signal(&c);
    pthread_mutex_unlock(&m);
    usleep(300);
  }
  pthread_mutex_lock(&m);
  stop = 1;
  pthread_cond_broadcast(&c);
  pthread_mutex_unlock(&m);
  for (int i = 0; i < 4; i++)
    pthread_join(t[i], 0);
}
