/* SPDX-License-Identifier: MIT
 *
 * Four threads of which one writes a log under the lock that all of them need.
 */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

__attribute__((noinline)) static void write_log(void) {
  pthread_mutex_lock(&table);
  usleep(20000);
  pthread_mutex_unlock(&table);
  usleep(100);
}

__attribute__((noinline)) static void look_up(void) {
  pthread_mutex_lock(&table);
  pthread_mutex_unlock(&table);
}

static void *logs(void *unused) {
  while (!stop)
    write_log();
  return unused;
}

static void *serves(void *unused) {
  while (!stop)
    look_up();
  return unused;
}

int main(void) {
  pthread_t threads[4];
  pthread_create(&threads[0], NULL, logs, NULL);
  for (int i = 1; i < 4; i++)
    pthread_create(&threads[i], NULL, serves, NULL);
  usleep(1500000);
  stop = 1;
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
}
