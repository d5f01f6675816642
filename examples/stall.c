/* SPDX-License-Identifier: MIT
 *
 * A program that notices its own stalls: a thread that declares its iterations, and a monitor
 * (sonde/stall.h).
 *
 *   cc stall.c -lsonde -pthread && ./a.out
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <sonde/stall.h>
#include <sonde/name.h>

static atomic_bool seen;

/* In the monitor's thread. The hot path is the code that used the time. */
static void on_stall(const sonde_stall_t *stall, void *unused) {
  (void)unused;
  if (stall->phase != SONDE_STALL_ENDED) return;
  printf("a stall, at least %u ms, %s; the time was used here:\n",
         (unsigned)(stall->limit_ns / 1000000), sonde_stall_cause_text(stall->cause));
  fflush(stdout);
  if (stall->hot_path_count > 0) sonde_stack_print(1, stall->hot_path, 1, 0);
  seen = true;
}

static void *monitor(void *unused) {
  sonde_stall_monitor(50, on_stall, NULL);
  return unused;
}

__attribute__((noinline)) static void handle(int request) {
  if (request == 3) /* too slow */
    for (int i = 0; i < 20; i++)
      usleep(10000);
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, monitor, NULL);
  while (sonde_heartbeat() == SONDE_EUNSUPPORTED)
    usleep(1000); /* until the monitor has begun */
  for (int request = 0; request < 5; request++) {
    sonde_heartbeat(); /* ends an iteration, and begins the next one */
    handle(request);
  }
  sonde_stall_end();
  while (!seen)
    usleep(1000);
  sonde_stall_monitor_stop();
  pthread_join(thread, NULL);
  return 0;
}
