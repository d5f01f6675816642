/* SPDX-License-Identifier: MIT
 *
 * Healthy: four threads that seldom need a lock.
 */
#include <pthread.h>
#include <unistd.h>
#include <math.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static double v[1000];
volatile double o;
static void *w(void *u) {
  for (int i = 0; i < 30000; i++) {
    double x = 0;
    for (int k = 1; k < 2000; k++)
      x += sqrt(k + i);
    pthread_mutex_lock(&m);
    v[i % 1000] = x;
    pthread_mutex_unlock(&m);
  }
  return u;
}
int main() {
  pthread_t t[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&t[i], 0, w, 0);
  for (int i = 0; i < 4; i++)
    pthread_join(t[i], 0);
}
