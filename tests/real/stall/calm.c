/* SPDX-License-Identifier: MIT
 *
 * Programs that do not stall, whatever is done to them: for tests/real/stall_alarms.py.
 *
 * usage: calm KIND SECONDS
 *   turns     turns of 80 ms of CPU time
 *   blocks    the same, asleep in the turn
 *   phases    a loop, then another one deeper in the stack that waits long
 *   dialog    a loop nested in a handler
 *   sleeps    select without descriptors
 *   batch     no loop at all
 *   children  a loop whose child, by fork, is busy in a long turn of its own
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static int queue;
static volatile uint64_t sink;
static double end_s;

static double clock_s(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void burn(double seconds) {
  double end = clock_s(CLOCK_THREAD_CPUTIME_ID) + seconds;
  while (clock_s(CLOCK_THREAD_CPUTIME_ID) < end)
    for (int i = 0; i < 1000; i++)
      sink += (uint64_t)i;
}

static int more(void) { return clock_s(CLOCK_MONOTONIC) < end_s; }

NOINLINE static void loop(double work, int asleep, int wait_ms, int turns) {
  struct epoll_event event;
  for (int i = 0; i < turns && more(); i++) {
    (void)epoll_wait(queue, &event, 1, wait_ms);
    if (asleep)
      usleep((useconds_t)(work * 1e6));
    else
      burn(work);
  }
}

NOINLINE static void deeper_loop(int wait_ms, int turns) {
  volatile char room[4096];
  struct epoll_event event;
  room[0] = 1;
  for (int i = 0; i < turns && more(); i++) {
    (void)epoll_wait(queue, &event, 1, wait_ms);
    burn(0.0005);
  }
  sink += (uint64_t)room[0];
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const char *kind = argv[1];
  end_s = clock_s(CLOCK_MONOTONIC) + atof(argv[2]);
  queue = epoll_create1(0);
  if (!strcmp(kind, "turns"))
    loop(0.08, 0, 20, 1 << 30);
  else if (!strcmp(kind, "blocks"))
    loop(0.08, 1, 20, 1 << 30);
  else if (!strcmp(kind, "phases")) {
    loop(0.001, 0, 5, 20);
    deeper_loop(200, 1 << 30);
  } else if (!strcmp(kind, "dialog")) {
    loop(0.001, 0, 5, 20);
    while (more()) {
      struct epoll_event event;
      (void)epoll_wait(queue, &event, 1, 5);
      deeper_loop(60, 20);
    }
  } else if (!strcmp(kind, "sleeps")) {
    while (more()) {
      struct timeval t = {0, 5000};
      (void)select(0, NULL, NULL, NULL, &t);
      burn(0.4);
    }
  } else if (!strcmp(kind, "batch")) {
    while (more())
      burn(0.1);
  } else if (!strcmp(kind, "children")) {
    loop(0.001, 0, 5, 20);
    pid_t child = fork();
    if (child == 0) {
      burn(0.4);
      _exit(0);
    }
    loop(0.001, 0, 5, 1 << 30);
    kill(child, SIGKILL);
  } else {
    return 2;
  }
  return 0;
}
