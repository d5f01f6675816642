/* SPDX-License-Identifier: MIT
 *
 * Turns of an event loop, for bench/stall.py: ns a turn, the fastest of several rounds.
 * usage: stall_loop empty|eventfd|idle SECONDS
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

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int queue, event_fd;

/* A turn that does nothing: the call alone. */
static void empty_turn(void) {
  struct epoll_event event;
  (void)epoll_wait(queue, &event, 1, 0);
}

/* The smallest turn with work in it. */
static void eventfd_turn(void) {
  struct epoll_event event;
  uint64_t value = 1;
  if (write(event_fd, &value, sizeof value) < 0) abort();
  if (epoll_wait(queue, &event, 1, -1) != 1) abort();
  if (read(event_fd, &value, sizeof value) < 0) abort();
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
  void (*turn)(void) = strcmp(argv[1], "empty") ? eventfd_turn : empty_turn;
  enum { TURNS = 20000 };
  while (now_s() < end) {
    double start = now_s();
    for (int i = 0; i < TURNS; i++)
      turn();
    double ns = (now_s() - start) / TURNS * 1e9;
    if (ns < best) best = ns;
  }
  printf("%.2f\n", best);
  return 0;
}
