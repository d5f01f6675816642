/* SPDX-License-Identifier: MIT
 *
 * Forks in every way inside nested calls. Each process counts its calls itself and prints
 * "PID FUNCTION CALLS" when it ends; a forked child's counts begin with 1 for each call that it is
 * in.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PLAIN __attribute__((noinline, no_instrument_function, patchable_function_entry(0)))

enum { MAIN, OUTER, FORKING, INNER, WORKER, STEP, COUNT };
static const char *const names[COUNT] = {"main", "outer", "forking", "inner", "worker", "step"};
static __thread int open_calls[COUNT];
static int calls[COUNT];

#define ENTER(f) (calls[f]++, open_calls[f]++)
#define LEAVE(f) (open_calls[f]--)

PLAIN static void tell(void) {
  char text[512];
  int n = 0;
  for (int f = 0; f < COUNT; f++)
    if (calls[f]) n += sprintf(text + n, "%d %s %d\n", (int)getpid(), names[f], calls[f]);
  if (write(1, text, (size_t)n) != n) abort();
}

PLAIN static void begin_child(void) { memcpy(calls, open_calls, sizeof calls); }

__attribute__((noinline)) void step(int i) {
  ENTER(STEP);
  __asm__ volatile("" ::"r"(i));
  LEAVE(STEP);
}

__attribute__((noinline)) int inner(int deeper);

/* Forks; the child forks DEEPER times, too. Both return through all their calls. */
__attribute__((noinline)) int forking(int deeper) {
  ENTER(FORKING);
  pid_t child = fork();
  if (!child) begin_child();
  for (int i = 0; i < 3; i++)
    step(i);
  if (child) waitpid(child, NULL, 0);
  if (!child && deeper) inner(deeper - 1);
  LEAVE(FORKING);
  return child == 0;
}

__attribute__((noinline)) int inner(int deeper) {
  ENTER(INNER);
  int is_child = forking(deeper);
  step(1);
  LEAVE(INNER);
  return is_child;
}

__attribute__((noinline)) int outer(int deeper) {
  ENTER(OUTER);
  int is_child = inner(deeper);
  step(2);
  LEAVE(OUTER);
  return is_child;
}

__attribute__((noinline)) void *worker(void *unused) {
  ENTER(WORKER);
  if (forking(0)) {
    tell();
    _exit(0);
  }
  LEAVE(WORKER);
  return unused;
}

int main(int argc, char **argv) {
  ENTER(MAIN);
  if (argc > 1) { /* a forking server */
    for (int i = atoi(argv[1]); i > 0; i--)
      if (forking(0)) _exit(0);
    tell();
    return 0;
  }
  pid_t vforked = vfork();
  if (!vforked) _exit(0);
  waitpid(vforked, NULL, 0);
  char *const spawned[] = {"true", NULL};
  if (posix_spawnp(&vforked, "true", NULL, NULL, spawned, spawned + 1) == 0)
    waitpid(vforked, NULL, 0);
  if (!outer(2)) {
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    pthread_join(thread, NULL);
  }
  tell();
  return 0;
}
