/* SPDX-License-Identifier: MIT
 *
 * Healthy: two threads that take turns.
 */
#include <pthread.h>
#include <semaphore.h>
static sem_t a, b;
static void *w(void *u) {
  for (int i = 0; i < 60000; i++) {
    sem_wait(&a);
    sem_post(&b);
  }
  return u;
}
int main() {
  sem_init(&a, 0, 0);
  sem_init(&b, 0, 0);
  pthread_t t;
  pthread_create(&t, 0, w, 0);
  for (int i = 0; i < 60000; i++) {
    sem_post(&a);
    sem_wait(&b);
  }
  pthread_join(t, 0);
}
