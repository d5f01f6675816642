/* SPDX-License-Identifier: MIT
 *
 * Fault: wakes all threads for each job.
 * Expected: lock-convoy take_job
 */
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int jobs, stop;
__attribute__((noinline)) int take_job(void) {
  pthread_mutex_lock(&m);
  while (!jobs && !stop)
    pthread_cond_wait(&c, &m);
  int s = stop;
  if (jobs) jobs--;
  pthread_mutex_unlock(&m);
  return !s;
}
__attribute__((noinline)) void add_job(void) {
  pthread_mutex_lock(&m);
  jobs++;
  pthread_cond_broadcast(&c);
  pthread_mutex_unlock(&m);
}
static void *w(void *u) {
  while (take_job())
    ;
  return u;
}
int main() {
  pthread_t t[16];
  for (int i = 0; i < 16; i++)
    pthread_create(&t[i], 0, w, 0);
  for (int i = 0; i < 2500; i++) {
    add_job();
    usleep(300);
  }
  stop = 1;
  pthread_cond_broadcast(&c);
  for (int i = 0; i < 16; i++)
    pthread_join(t[i], 0);
}
