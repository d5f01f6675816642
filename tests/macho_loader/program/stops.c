/* SPDX-License-Identifier: MIT
 *
 * Threads that are stopped at any instruction, and a line a stop for what libsonde saw: tid, mark
 * and program counters. Calls of many forms: deep, small, without a frame, with early exits, in
 * tail position, and waits in the system. Functions of these names are in no other file of the
 * program: the witness knows them by name.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "sonde/thread.h"

#define NOINLINE __attribute__((noinline))

static volatile uint64_t sink;
static int ends[2];

NOINLINE static uint64_t leaf(uint64_t a, uint64_t b) { return a * 31 + (b ^ (a >> 7)); }

NOINLINE static uint64_t leaf_with_locals(uint64_t a) {
  volatile uint64_t local[6] = {a, 1, 2, 3, 4, 5};
  for (int i = 0; i < 5; i++)
    local[i + 1] += local[i];
  return local[5];
}

/* Leaves early, before it has made a frame where the compiler sees to that. */
NOINLINE static uint64_t early(uint64_t a) {
  if (a % 3 == 0) return a / 3;
  uint64_t b = leaf_with_locals(a), c = leaf(b, a);
  return leaf_with_locals(b + c) + c;
}

NOINLINE static uint64_t many(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                              uint64_t f, uint64_t g, uint64_t h) {
  uint64_t x = leaf(a, b), y = leaf(c, d), z = leaf(e, f), w = leaf(g, h);
  return leaf(x, y) + leaf(z, w) + leaf(x, w) + leaf(y, z);
}

NOINLINE static uint64_t tail(uint64_t a) {
  sink += a;
  return early(a + 1);
}

NOINLINE static uint64_t down(int levels, uint64_t a) {
  if (levels == 0) return many(a, 1, 2, 3, 4, 5, 6, a) + tail(a);
  uint64_t b = down(levels - 1, leaf(a, (uint64_t)levels));
  return b + early(b);
}

static volatile bool over;
static volatile int begun; /* threads that are in their own functions */

static void *work(void *argument) {
  __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
  uint64_t a = (uint64_t)(uintptr_t)argument + 1;
  while (!over)
    for (int levels = 0; levels < 24 && !over; levels++)
      a += down(levels, a);
  sink += a;
  return NULL;
}

NOINLINE static int wait_below(int levels) {
  char byte;
  if (levels == 0) return (int)read(ends[0], &byte, 1);
  return wait_below(levels - 1) + (int)leaf((uint64_t)levels, 2);
}

static void *stay(void *argument) {
  __atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
  sink += (uint64_t)wait_below((int)(uintptr_t)argument);
  return NULL;
}

static char *put_hex(char *at, uint64_t value) {
  char digits[17];
  int n = 0;
  do
    digits[n++] = "0123456789abcdef"[value & 15];
  while (value >>= 4);
  while (n)
    *at++ = digits[--n];
  return at;
}

static void tell(pid_t tid, const sonde_capture_t *c) {
  static char line[256 * 17 + 64];
  char *at = put_hex(line, (uint64_t)tid);
  *at++ = ' ';
  at = put_hex(at, (uint64_t)c->status);
  for (int i = 0; i < c->count; i++) {
    *at++ = ' ';
    at = put_hex(at, c->pcs[i]);
  }
  *at++ = '\n';
  (void)write(1, line, (size_t)(at - line));
}

#define WORKERS 3
#define WAITERS 2

static pthread_t threads[WORKERS + WAITERS];

static void begin_threads(void) {
  if (pipe(ends) != 0) return;
  for (int i = 0; i < WORKERS + WAITERS; i++)
    pthread_create(&threads[i], NULL, i < WORKERS ? work : stay, (void *)(uintptr_t)(i * 7));
  while (begun < WORKERS + WAITERS)
    usleep(1000);
}

static void end_threads(void) {
  void *result;
  over = true;
  (void)write(ends[1], "xxxx", 4);
  for (int i = 0; i < WORKERS + WAITERS; i++)
    pthread_join(threads[i], &result);
}

/* One of them, and a moment later. */
static pthread_t choose(uint64_t *seed) {
  *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
  usleep((unsigned)(*seed >> 32) % 300);
  return threads[*seed % 16 < 14 ? *seed % WORKERS : WORKERS + *seed % WAITERS];
}

void run_stops(int count, uint64_t seed) {
  static uintptr_t pcs[256];
  begin_threads();
  for (int i = 0; i < count; i++) {
    sonde_capture_t c = {.pcs = pcs, .max = 256};
    pid_t tid = sonde_thread_of_pthread(choose(&seed));
    (void)sonde_capture_thread(tid, &c, NULL);
    tell(tid, &c);
  }
  end_threads();
}

static volatile int handled;

/* In the interrupted thread: what it was doing. */
static void handle(int number, siginfo_t *info, void *context) {
  static uintptr_t pcs[256];
  sonde_capture_t c = {.pcs = pcs, .max = 256, .ucontext = context};
  uint64_t id = 0;
  pthread_threadid_np(NULL, &id);
  (void)sonde_capture(&c);
  if (info->si_signo == number) tell((pid_t)id, &c);
  handled++;
}

void run_signals(int count, uint64_t seed) {
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
  action.sa_sigaction = handle;
  begin_threads();
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < count; i++) {
    pthread_kill(choose(&seed), SIGUSR1);
    while (handled == i) /* one at a time */
      usleep(100);
  }
  end_threads();
}
