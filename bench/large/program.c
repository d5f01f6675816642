/* SPDX-License-Identifier: MIT
 *
 * program FOLDER LIBRARIES PARTS THREADS: loads big.so, which has PARTS parts, and 0.so, 1.so, …;
 * each thread waits under 24 frames, of which every second one is in big.so. Prints a line when all
 * wait.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEPTH = 24 };
typedef int step_t(void *steps);

static step_t **steps_of_big, **steps_of_others;
static int parts, others, waiting;

static int wait_here(void *steps) {
  __atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED);
  pause();
  return steps != NULL;
}

static void *work(void *number) {
  step_t *steps[DEPTH + 1];
  long n = (long)number * DEPTH;
  for (int i = 0; i < DEPTH; i++, n++)
    steps[i] = i % 2 ? steps_of_big[n % parts] : steps_of_others[n / 2 % others];
  steps[DEPTH] = wait_here;
  steps[0](steps + 1);
  return NULL;
}

static step_t *step_in(const char *folder, const char *library, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, library);
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  step_t *step = handle ? (step_t *)dlsym(handle, name) : NULL;
  if (step) return step;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  others = atoi(argv[2]), parts = atoi(argv[3]);
  int threads = atoi(argv[4]);
  steps_of_big = calloc((size_t)parts, sizeof *steps_of_big);
  steps_of_others = calloc((size_t)others, sizeof *steps_of_others);
  char name[64];
  for (int i = 0; i < parts; i++) {
    snprintf(name, sizeof name, "unit_step_%d", i);
    steps_of_big[i] = step_in(argv[1], "big.so", name);
  }
  for (int i = 0; i < others; i++) {
    snprintf(name, sizeof name, "%d.so", i);
    steps_of_others[i] = step_in(argv[1], name, "unit_step");
  }
  for (long i = 0; i < threads; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void *)i)) return 1;
  }
  while (__atomic_load_n(&waiting, __ATOMIC_RELAXED) < threads)
    usleep(1000);
  puts("ready");
  fflush(stdout);
  pause();
  return 0;
}
