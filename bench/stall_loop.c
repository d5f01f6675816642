/* SPDX-License-Identifier: MIT
 *
 * Iterations of an event loop, for bench/stall.py. Prints ns per iteration, the least of several
 * rounds. usage: stall_loop empty|eventfd|idle SECONDS stall_loop stalls SECONDS THRESHOLD_MS The
 * second form runs long iterations at random phases and prints the ns of each on a line.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static double clock_s(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now_s(void) { return clock_s(CLOCK_MONOTONIC); }
static double cpu_s(void) { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

static int queue, event_fd;

/* An iteration that does nothing except the wait. */
static void empty_iteration(void) {
  struct epoll_event event;
  (void)epoll_wait(queue, &event, 1, 0);
}

/* The smallest iteration with work. */
static void eventfd_iteration(void) {
  struct epoll_event event;
  uint64_t value = 1;
  if (write(event_fd, &value, sizeof value) < 0) abort();
  if (epoll_wait(queue, &event, 1, -1) != 1) abort();
  if (read(event_fd, &value, sizeof value) < 0) abort();
}

/* A stall that sleeps, or one that uses the CPU. */
static void stall(double seconds, int asleep) {
  static volatile unsigned sink;
  double began = now_s();
  if (asleep)
    usleep((useconds_t)(seconds * 1e6));
  else
    for (double end = cpu_s() + seconds; cpu_s() < end;)
      for (int i = 0; i < 100000; i++)
        sink = sink + 1;
  printf("%.0f\n", (now_s() - began) * 1e9);
}

static void stalls(double end, double threshold) {
  struct epoll_event event;
  for (int n = 0; now_s() < end; n++) {
    for (int i = rand() % 6; i >= 0; i--)
      (void)epoll_wait(queue, &event, 1, rand() % 9);
    if (n >= 5) stall(threshold * (1.4 + rand() % 100 / 100.0), n % 2);
  }
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  double end = now_s() + atof(argv[2]), best = 1e9;
  queue = epoll_create1(0);
  event_fd = eventfd(0, 0);
  struct epoll_event event = {.events = EPOLLIN};
  (void)epoll_ctl(queue, EPOLL_CTL_ADD, event_fd, &event);
  if (!strcmp(argv[1], "idle")) {
    for (int i = 0; i < 5; i++)
      (void)epoll_wait(queue, &event, 1, 10);
    (void)epoll_wait(queue, &event, 1, (int)(atof(argv[2]) * 1000));
    return 0;
  }
  if (argc > 3) {
    stalls(end, atof(argv[3]) / 1000);
    return 0;
  }
  void (*iterate)(void) = strcmp(argv[1], "empty") ? eventfd_iteration : empty_iteration;
  enum { ITERATIONS = 1000 }; /* about 1 ms: within a time slice of a busy machine */
  while (now_s() < end) {
    double start = now_s();
    for (int i = 0; i < ITERATIONS; i++)
      iterate();
    double ns = (now_s() - start) / ITERATIONS * 1e9;
    if (ns < best) best = ns;
  }
  printf("%.2f\n", best);
  return 0;
}
