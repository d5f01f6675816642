/* SPDX-License-Identifier: MIT
 *
 * Opens libsonde, asks a running thread for its stack, closes libsonde, and sends that thread the
 * signal that it was asked by; three times.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ETIMEDOUT_OF_SONDE (-5) /* sonde/status.h */

typedef int stack_of_thread_t(pid_t tid, uintptr_t *pcs, int max);

static atomic_int tid, stop;

static void *run(void *context) {
  tid = (int)syscall(SYS_gettid);
  while (!stop) {
  }
  return context;
}

/* On a busy machine a thread may get no CPU time for the second that it has for its answer. */
static int ask(stack_of_thread_t *stack) {
  uintptr_t pcs[64];
  int count;
  do
    count = stack(tid, pcs, 64);
  while (count == ETIMEDOUT_OF_SONDE);
  if (count <= 0) fprintf(stderr, "no stack: %d\n", count);
  return count;
}

int main(int argc, char **argv) {
  pthread_t thread;
  if (argc < 2 || pthread_create(&thread, NULL, run, NULL) != 0) return 2;
  while (!tid) {
  }
  for (int i = 0; i < 3; i++) {
    void *library = dlopen(argv[1], RTLD_NOW);
    stack_of_thread_t *stack =
        library ? (stack_of_thread_t *)dlsym(library, "sonde_stack_of_thread") : NULL;
    if (!stack || ask(stack) <= 0) return 3;
    dlclose(library);
    pthread_kill(thread, SIGURG);
    usleep(10000);
  }
  stop = 1;
  pthread_join(thread, NULL);
  return 0;
}
