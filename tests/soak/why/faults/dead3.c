/* SPDX-License-Identifier: MIT
 *
 * Fault: three threads, each waits for the next.
 * Expected: deadlock -
 */
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t m[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                               PTHREAD_MUTEX_INITIALIZER};
__attribute__((noinline)) void fork_a(void) {
  pthread_mutex_lock(&m[0]);
  usleep(50000);
  pthread_mutex_lock(&m[1]);
}
__attribute__((noinline)) void fork_b(void) {
  pthread_mutex_lock(&m[1]);
  usleep(50000);
  pthread_mutex_lock(&m[2]);
}
__attribute__((noinline)) void fork_c(void) {
  pthread_mutex_lock(&m[2]);
  usleep(50000);
  pthread_mutex_lock(&m[0]);
}
static void *a(void *u) {
  fork_a();
  return u;
}
static void *b(void *u) {
  fork_b();
  return u;
}
static void *c(void *u) {
  fork_c();
  return u;
}
int main() {
  pthread_t t[3];
  pthread_create(t, 0, a, 0);
  pthread_create(t + 1, 0, b, 0);
  pthread_create(t + 2, 0, c, 0);
  for (int i = 0; i < 3; i++)
    pthread_join(t[i], 0);
}
