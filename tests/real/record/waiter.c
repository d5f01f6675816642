/* SPDX-License-Identifier: MIT
 *
 * Threads that wait in known places for a known time: in read, in poll, for a mutex, in short
 * sleeps, in epoll_wait between bits of work; one burns. Each prints, at its end, its name, how
 * long it was there, and what the kernel says of it: ns on a CPU and ns waiting for one. The last
 * line is how many waits ended with EINTR.
 *
 * usage: waiter SECONDS [MORE]      MORE threads that wait in read
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static double seconds;
static int never[2]; /* nothing is written into it until the end, when it is closed */
static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER;
static long interrupted;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void burn(double for_seconds) {
  for (double end = now() + for_seconds; now() < end;)
    for (volatile int i = 0; i < 1000; i++) {
    }
}

static void count(long failed) {
  if (failed && errno == EINTR) __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
}

void waits_in_read(void) {
  char c;
  count(read(never[0], &c, 1) < 0);
}

void waits_in_poll(void) {
  struct pollfd p = {.fd = never[0], .events = POLLIN};
  count(poll(&p, 1, -1) < 0);
}

void waits_for_lock(void) {
  pthread_mutex_lock(&taken);
  pthread_mutex_unlock(&taken);
}

void naps(void) {
  const struct timespec nap = {0, 3000000};
  for (double end = now() + seconds; now() < end;)
    count(nanosleep(&nap, NULL) < 0);
}

void turns(void) {
  struct epoll_event event;
  int fd = epoll_create1(EPOLL_CLOEXEC);
  for (double end = now() + seconds; now() < end; burn(0.0005))
    count(epoll_wait(fd, &event, 1, 2) < 0);
  close(fd);
}

void burns(void) { burn(seconds); }

typedef struct job {
  const char *name;
  void (*work)(void);
  pthread_t thread;
} job_t;

static void *run(void *argument) {
  job_t *job = argument;
  pthread_setname_np(pthread_self(), job->name);
  double began = now();
  job->work();
  unsigned long long run_ns = 0, runq_ns = 0;
  FILE *f = fopen("/proc/thread-self/schedstat", "r");
  if (f && fscanf(f, "%llu %llu", &run_ns, &runq_ns) != 2) run_ns = 0;
  if (f) fclose(f);
  flockfile(stdout);
  printf("%s %d %.0f %llu %llu\n", job->name, (int)gettid(), 1e9 * (now() - began), run_ns,
         runq_ns);
  funlockfile(stdout);
  return NULL;
}

int main(int argc, char **argv) {
  static job_t jobs[512] = {{"read", waits_in_read, 0},  {"poll", waits_in_poll, 0},
                            {"lock", waits_for_lock, 0}, {"naps", naps, 0},
                            {"turns", turns, 0},         {"burns", burns, 0}};
  int n = 6;
  seconds = argc > 1 ? atof(argv[1]) : 1;
  for (int more = argc > 2 ? atoi(argv[2]) : 0; more > 0 && n < 512; more--)
    jobs[n++] = (job_t){"more", waits_in_read, 0};
  if (pipe(never) < 0) return 1;
  pthread_mutex_lock(&taken);
  for (int i = 0; i < n; i++)
    if (pthread_create(&jobs[i].thread, NULL, run, &jobs[i])) return 1;
  for (double end = now() + seconds; now() < end;)
    usleep(100000);
  pthread_mutex_unlock(&taken);
  close(never[1]);
  for (int i = 0; i < n; i++)
    pthread_join(jobs[i].thread, NULL);
  printf("interrupted %ld\n", interrupted);
  return 0;
}
