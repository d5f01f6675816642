/* SPDX-License-Identifier: MIT
 *
 * Waits in each of several ways inside a function of its own, and prints the microseconds that it
 * waited by its own clock: sleep, a lock that another thread holds, a descriptor. `crunch` uses the
 * CPU instead.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { STEP_US = 30000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int pipes[2];
static volatile unsigned long sum;

__attribute__((no_instrument_function)) static long now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void *hold(void *nothing) {
  pthread_mutex_lock(&lock);
  (void)!write(pipes[1], "x", 1);
  usleep(STEP_US);
  pthread_mutex_unlock(&lock);
  return nothing;
}

static void nap(void) { usleep(STEP_US); }
static void take(void) {
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
}
static void look(void) {
  poll(&(struct pollfd){.fd = pipes[0], .events = POLLIN}, 1, STEP_US / 1000);
}
static void crunch(void) {
  for (unsigned long i = 0; i < 20000000; i++)
    sum += i;
}

__attribute__((no_instrument_function)) static void measure(void (*f)(void)) {
  long start = now_us();
  f();
  printf("%ld ", now_us() - start);
}

int main(void) {
  pthread_t thread;
  char byte;
  if (pipe(pipes)) return 1;
  pthread_create(&thread, NULL, hold, NULL);
  if (read(pipes[0], &byte, 1) != 1) return 1;
  measure(take);
  pthread_join(thread, NULL);
  measure(nap);
  measure(look);
  measure(crunch);
  puts("");
}
