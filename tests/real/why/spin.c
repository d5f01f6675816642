/* SPDX-License-Identifier: MIT
 *
 * A thread that waits for a flag by calling sched_yield, until it has used 0.25 s of CPU time. On a
 * busy machine, each call lets all others run for milliseconds and itself for a microsecond. A high
 * priority (sched(7)), which root may have, gives it the CPU back at once.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static atomic_int ready;

__attribute__((noinline)) static void wait_until_ready(void) {
  while (!atomic_load(&ready))
    sched_yield();
}

static void *worker(void *unused) {
  (void)setpriority(PRIO_PROCESS, 0, -20); /* of this thread: setpriority(2) */
  wait_until_ready();
  return unused;
}

int main(void) {
  pthread_t thread;
  clockid_t clock;
  struct timespec used = {0, 0};
  pthread_create(&thread, NULL, worker, NULL);
  pthread_getcpuclockid(thread, &clock);
  while (used.tv_nsec < 250000000 && used.tv_sec == 0) {
    usleep(50000);
    clock_gettime(clock, &used);
  }
  atomic_store(&ready, 1);
  pthread_join(thread, NULL);
}
