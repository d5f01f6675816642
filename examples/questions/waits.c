/* SPDX-License-Identifier: MIT
 * docs/sampling.md: a thread sleeps while it holds the lock that another one needs. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool ready;

static void *writer(void *unused) {
  while (!ready) {
    pthread_mutex_lock(&lock);
    usleep(80000); /* sleeps while it holds the lock */
    pthread_mutex_unlock(&lock);
    usleep(20000);
  }
  return unused;
}

static void *reader(void *unused) {
  for (int round = 0; round < 10; round++) {
    for (volatile int i = 0; i < 50000000; i++)
      continue;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
  }
  ready = true;
  return unused;
}

int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, writer, NULL);
  pthread_create(&threads[1], NULL, reader, NULL);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
}
