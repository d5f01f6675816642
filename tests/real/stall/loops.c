/* SPDX-License-Identifier: MIT
 *
 * Many threads, each an event loop with one stall, all at about the same time: thread N, named
 * loop-N, for 1200 + N ms. For tests/real/stall_threads.py.
 * usage: loops COUNT
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TURNS 40

static pthread_barrier_t all;

__attribute__((noinline)) void holds_up(long n) {
  usleep(1200000 + 1000 * (unsigned)n);
  __asm__ volatile("");
}

static void *loop(void *argument) {
  long n = (long)argument;
  char name[16];
  snprintf(name, sizeof name, "loop-%ld", n);
  pthread_setname_np(pthread_self(), name);
  int queue = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
  const struct itimerspec every = {{0, 50000000}, {0, 50000000}};
  struct epoll_event event = {.events = EPOLLIN};
  uint64_t ticks;
  if (queue < 0 || timer < 0) exit(1);
  timerfd_settime(timer, 0, &every, NULL);
  epoll_ctl(queue, EPOLL_CTL_ADD, timer, &event);
  pthread_barrier_wait(&all);
  for (int i = 0; i < TURNS; i++) {
    epoll_wait(queue, &event, 1, -1);
    if (read(timer, &ticks, sizeof ticks) < 0) exit(1);
    if (i == TURNS / 2) holds_up(n);
  }
  return NULL;
}

int main(int argc, char **argv) {
  long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1;
  pthread_t *threads = calloc((size_t)count, sizeof *threads);
  pthread_barrier_init(&all, NULL, (unsigned)count);
  for (long n = 0; n < count; n++)
    if (pthread_create(&threads[n], NULL, loop, (void *)n)) return 1;
  for (long n = 0; n < count; n++)
    pthread_join(threads[n], NULL);
  free(threads);
  return 0;
}
