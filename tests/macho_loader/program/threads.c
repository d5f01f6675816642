/* SPDX-License-Identifier: MIT
 *
 * Other threads: one that runs, one that waits in a system call, one that waits deep down; by id,
 * by handle, by name, and all of them.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "sonde/thread.h"

static volatile bool done;
static volatile uint64_t turns;
static volatile int waiting; /* threads that are about to wait */
static int ends[2], deep_ends[2];

__attribute__((noinline)) static uint64_t spin_inner(uint64_t n) {
  volatile uint64_t local[4] = {n, 1, 2, 3};
  for (int i = 0; i < 100; i++)
    local[i % 4] += local[(i + 1) % 4];
  return local[0];
}

__attribute__((noinline)) static void spin_outer(void) {
  volatile uint64_t local[6] = {0};
  while (!done) {
    local[0] += spin_inner(local[1]);
    turns++;
  }
}

static void *spin(void *argument) {
  pthread_setname_np("spinning");
  spin_outer();
  return argument;
}

__attribute__((noinline)) static int wait_inner(int fd) {
  volatile char local[32];
  __atomic_fetch_add(&waiting, 1, __ATOMIC_RELAXED);
  ssize_t got = read(fd, (char *)local, 1);
  return (int)got + local[0];
}

static void *wait(void *argument) {
  pthread_setname_np("waiting");
  volatile int local[3] = {wait_inner(ends[0])};
  return local[0] ? argument : NULL;
}

__attribute__((noinline)) static int go_down(int levels) {
  volatile int local[5] = {levels};
  int result = levels ? go_down(levels - 1) : wait_inner(deep_ends[0]);
  return result + local[4];
}

static void *deep(void *argument) {
  pthread_setname_np("deep");
  volatile int local[3] = {go_down(100)};
  return local[0] ? argument : NULL;
}

static uintptr_t pcs[256];

static int capture(pthread_t thread, sonde_capture_t *out) {
  *out = (sonde_capture_t){.pcs = pcs, .max = 256};
  return sonde_capture_thread(sonde_thread_of_pthread(thread), out, NULL);
}

static void check_spinning(pthread_t thread) {
  static const char *const chain[] = {"spin_outer", "spin", NULL};
  sonde_capture_t c;
  int good = 0, inner = 0;
  uint64_t before = turns;
  for (int i = 0; i < 200; i++) {
    int count = capture(thread, &c);
    good += count > 2 && c.status == SONDE_STACK_COMPLETE && has_chain(pcs, count, chain);
    inner += count > 3 && is_named(pcs[0], "spin_inner");
  }
  check(good == 200, "a running thread, 200 times");
  check(inner > 0, "it was met in its inner function");
  uint64_t then = turns;
  while (turns == then) /* when it gets a CPU */
    usleep(1000);
  check(turns > before, "it goes on");
}

static bool is_asleep(pthread_t thread) {
  sonde_thread_t about;
  return sonde_thread(sonde_thread_of_pthread(thread), &about) == 0 && about.state == 'S';
}

static void check_waiting(pthread_t thread) {
  static const char *const chain[] = {"read", "wait_inner", "wait", NULL};
  sonde_capture_t c;
  int count = capture(thread, &c);
  check(count > 3 && has_chain(pcs, count, chain), "a waiting thread, from the system call on");
  check(c.status == SONDE_STACK_COMPLETE, "its stack is complete");
}

static void check_deep(pthread_t thread) {
  static const char *const bottom[] = {"go_down", "deep", NULL};
  sonde_capture_t c;
  int count = capture(thread, &c), levels = 0;
  for (int i = 0; i < count; i++)
    levels += is_named(pcs[i], "go_down");
  check(levels == 101 && has_chain(pcs, count, bottom), "a deep stack");
  c = (sonde_capture_t){.pcs = pcs, .max = 10};
  count = sonde_capture_thread(sonde_thread_of_pthread(thread), &c, NULL);
  check(count == 10 && c.status == SONDE_STACK_TRUNCATED, "a bounded capture is cut");
}

static void check_all(void) {
  static sonde_thread_stack_t stacks[16];
  static uintptr_t room[16 * 64];
  sonde_all_t all = {.threads = stacks,
                     .max = 16,
                     .pcs = room,
                     .depth = 64,
                     .options = {.timeout_ns = PATIENCE_NS}};
  int count = sonde_capture_all(&all), named = 0, filled = 0;
  for (int i = 0; i < count; i++) {
    const char *name = stacks[i].thread.name;
    named += !strcmp(name, "spinning") || !strcmp(name, "waiting") || !strcmp(name, "deep");
    filled += stacks[i].stack.count > 2;
  }
  check(count == 4 && all.total == 4, "all threads");
  check(named == 3, "each with its name");
  check(filled == 4, "each with its stack");
}

static void check_ids(pthread_t waiting) {
  pid_t tids[4];
  uint64_t id = 0;
  check(sonde_threads_named("waiting", tids, 4) == 1, "a thread by its name");
  check(tids[0] == sonde_thread_of_pthread(waiting), "and by its handle");
  check(tids[0] == sonde_thread_of_mach_port(pthread_mach_thread_np(waiting)), "and by its port");
  check(sonde_thread_of_mach_port(0) == SONDE_ENOTHREAD &&
            sonde_thread_of_mach_port(0x203) == SONDE_ENOTHREAD,
        "what is no port of a thread is refused");
  check(pthread_threadid_np(waiting, &id) == 0 && (pid_t)id == tids[0], "the id is the system's");
  pthread_threadid_np(NULL, &id);
  check(sonde_main_thread() == (pid_t)id, "the main thread is known");
  sonde_thread_t thread;
  check(sonde_thread(tids[0], &thread) == 0 && !strcmp(thread.name, "waiting"),
        "a thread's name by its id");
  uintptr_t pc;
  check(sonde_stack_of_thread(0x7ffffff0, &pc, 1) == SONDE_ENOTHREAD, "no such thread");
}

void check_threads(void) {
  pthread_t threads[3];
  void *result;
  if (pipe(ends) != 0 || pipe(deep_ends) != 0) check(false, "pipe");
  pthread_create(&threads[0], NULL, spin, NULL);
  pthread_create(&threads[1], NULL, wait, NULL);
  pthread_create(&threads[2], NULL, deep, NULL);
  while (!turns || waiting < 2 || !is_asleep(threads[1]) || !is_asleep(threads[2]))
    usleep(1000);
  check_spinning(threads[0]);
  check_waiting(threads[1]);
  check_deep(threads[2]);
  check_all();
  check_ids(threads[1]);
  done = true;
  (void)write(ends[1], "x", 1);
  (void)write(deep_ends[1], "x", 1);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], &result);
  sonde_thread_t left[4];
  check(sonde_threads(left, 4) == 1 && left[0].tid == sonde_main_thread(),
        "threads that have ended are gone");
}
