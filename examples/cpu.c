/* SPDX-License-Identifier: MIT
 *
 * A program that notices a thread that uses too much CPU, and prints where it was used
 * (sonde/cpu.h).
 *
 *   cc cpu.c -lsonde -pthread && ./a.out
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include <sonde/cpu.h>

static atomic_bool seen;

/* In the monitor's thread, here the main thread. */
static void on_episode(const sonde_cpu_episode_t *episode, void *unused) {
  (void)unused;
  sonde_cpu_print(1, episode);
  seen = true;
  sonde_cpu_monitor_stop();
}

__attribute__((noinline)) static void retry(void) {
  static volatile unsigned sink;
  for (int i = 0; i < 1000; i++)
    sink++;
}

static void *poll_without_a_pause(void *unused) {
  while (!seen)
    retry();
  return unused;
}

int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, poll_without_a_pause, NULL);
  int status = sonde_cpu_monitor(30, 1, on_episode, NULL); /* 30 % of a CPU for a second */
  seen = true;
  pthread_join(thread, NULL);
  if (status != 0) puts(sonde_strerror(status));
  return status != 0;
}
