/* SPDX-License-Identifier: MIT
 *
 * A thread that waits for a flag by calling sched_yield.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int ready;

__attribute__((noinline)) static void wait_until_ready(void) {
  while (!atomic_load(&ready))
    sched_yield();
}

static void *worker(void *unused) {
  wait_until_ready();
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, worker, NULL);
  usleep(600000);
  atomic_store(&ready, 1);
  pthread_join(thread, NULL);
}
