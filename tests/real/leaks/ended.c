/* SPDX-License-Identifier: MIT
 *
 * Threads that end and leave the only pointers to their blocks behind: on their stacks and in their
 * thread-local variables. The C library keeps the memory of these stacks for later threads. A stack
 * that the program supplied is the program's again: it stores a pointer there. */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { THREADS = 12 };

static pthread_barrier_t together;
static _Thread_local char *mine;

__attribute__((noinline)) static void drop(size_t size) {
  char *volatile on_the_stack = malloc(size);
  memset(on_the_stack, 1, size);
}

static void *work(void *argument) {
  drop((size_t)(intptr_t)argument);
  mine = malloc(50);
  (void)pthread_barrier_wait(&together); /* no thread takes over the stack of another */
  return NULL;
}

/* pthread_join, which nobody calls, would return this block. */
static void *leave(void *argument) {
  (void)argument;
  return malloc(3000);
}

static void *run(void *argument) { return argument; }

static int reuse_own_stack(void) {
  const size_t size = 1 << 20;
  pthread_attr_t attributes;
  pthread_t thread;
  char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return 1;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, size);
  if (pthread_create(&thread, &attributes, run, NULL) != 0) return 1;
  (void)pthread_join(thread, NULL);
  *(void **)stack = malloc(7000);
  return 0;
}

static int count_threads(void) {
  int count = -2; /* . and .. */
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && readdir(tasks))
    count++;
  if (tasks) closedir(tasks);
  return count;
}

int main(void) {
  pthread_t threads[THREADS], last;
  pthread_barrier_init(&together, NULL, THREADS);
  for (intptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, (void *)(100 + i)) != 0) return 1;
  for (int i = 0; i < THREADS; i++)
    (void)pthread_join(threads[i], NULL);
  if (reuse_own_stack() != 0) return 1;
  if (pthread_create(&last, NULL, leave, NULL) != 0) return 1;
  while (count_threads() > 1)
    usleep(1000);
  return 0;
}
