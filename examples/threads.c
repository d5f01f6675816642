/* SPDX-License-Identifier: MIT
 *
 * The stacks of all threads, as a watchdog prints them (sonde/thread.h). Blocked threads are read
 * without a signal.
 *
 *   cc threads.c -lsonde -pthread && ./a.out
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <sonde/thread.h>
#include <sonde/name.h>

enum { THREADS = 16, DEPTH = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_lock(void *unused) {
  pthread_setname_np(pthread_self(), "waiter");
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  return unused;
}

__attribute__((noinline)) static void print_all(void) {
  static sonde_thread_stack_t threads[THREADS];
  static uintptr_t pcs[THREADS * DEPTH];
  sonde_all_t all = {.threads = threads, .max = THREADS, .pcs = pcs, .depth = DEPTH};
  int count = sonde_capture_all(&all);
  for (int i = 0; i < count; i++) {
    const sonde_thread_stack_t *each = &threads[i];
    printf("thread \"%s\", %c, %s\n", each->thread.name, each->thread.state,
           each->stack.status == SONDE_STACK_COMPLETE ? "complete"
                                                      : sonde_strerror(each->stack.reason));
    fflush(stdout);
    sonde_stack_print(1, each->stack.pcs, each->stack.count, SONDE_NAME_EXACT);
  }
}

int main(void) {
  pthread_t waiter;
  pthread_mutex_lock(&lock);
  pthread_create(&waiter, NULL, wait_for_lock, NULL);
  pid_t tid = 0;
  sonde_thread_t thread = {0};
  while (sonde_threads_named("waiter", &tid, 1) != 1 || sonde_thread(tid, &thread) != 0 ||
         thread.state != 'S')
    usleep(1000); /* until it waits */
  print_all();
  pthread_mutex_unlock(&lock);
  pthread_join(waiter, NULL);
  return 0;
}
