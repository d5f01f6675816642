/* SPDX-License-Identifier: MIT
 *
 * A program that is recorded from outside: an event loop whose iterations block now and then, a
 * thread that runs, threads that wait for events a millisecond each, and a thread that rests.
 * SIGTERM ends it; it then prints how many of its calls ended with EINTR.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static volatile sig_atomic_t ended;
static long calls, interrupted;
static int requests[2], answers[2];
static pthread_barrier_t all_started;

static void end(int signal_number) { ended = signal_number; }

static void count(int result) {
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  if (result < 0 && errno == EINTR && !ended) __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
}

static void *burns(void *unused) {
  pthread_barrier_wait(&all_started);
  while (!ended)
    for (volatile uint64_t i = 0; i < 1000000; i++) {
    }
  return unused;
}

static void *turns(void *unused) {
  int set = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event;
  pthread_barrier_wait(&all_started);
  while (!ended) {
    for (volatile int i = 0; i < 20000; i++) {
    }
    count(epoll_wait(set, &event, 1, 1));
  }
  return unused;
}

static void *rests(void *unused) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
  pthread_barrier_wait(&all_started);
  pthread_mutex_lock(&lock);
  for (;;)
    pthread_cond_wait(&never, &lock);
  return unused;
}

static void *answerer(void *unused) {
  char byte;
  pthread_barrier_wait(&all_started);
  while (read(requests[0], &byte, 1) == 1) {
    usleep(400000);
    if (write(answers[1], &byte, 1) != 1) break;
  }
  return unused;
}

/* Blocks an iteration. */
static void asks(void) {
  char byte = 0;
  if (write(requests[1], &byte, 1) == 1) (void)!read(answers[0], &byte, 1);
}

static void start(void *(*run)(void *), const char *name) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0) abort();
  pthread_setname_np(thread, name);
}

int main(int argc, char **argv) {
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), set = epoll_create1(EPOLL_CLOEXEC);
  struct itimerspec twenty_ms = {{0, 20000000}, {0, 20000000}};
  struct epoll_event event = {.events = EPOLLIN};
  signal(SIGTERM, end);
  if (pipe(requests) || pipe(answers)) abort();
  if (argc > 1 && *argv[1] == 'e') { /* executes another program when its input ends */
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    execlp("sleep", "sleep", "3", (char *)NULL);
  }
  timerfd_settime(timer, 0, &twenty_ms, NULL);
  epoll_ctl(set, EPOLL_CTL_ADD, timer, &event);
  pthread_barrier_init(&all_started, NULL, 7);
  start(burns, "burns");
  start(rests, "rests");
  start(answerer, "answerer");
  for (int i = 0; i < 3; i++)
    start(turns, "turns");
  pthread_barrier_wait(&all_started);
  puts("ready");
  fflush(stdout);
  for (int i = 1; !ended; i++) {
    uint64_t expired;
    epoll_wait(set, &event, 1, -1);
    if (read(timer, &expired, sizeof expired) < 0) continue;
    if (i % 10 == 0) asks();
  }
  usleep(50000);
  printf("%ld %ld\n", calls, interrupted);
  return 0;
}
