/* SPDX-License-Identifier: MIT
 *
 * Loads libintercepted.so three times while another thread runs: reloads LIBRARY
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static int is_over;

static void *run(void *unused) {
  while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED))
    ;
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  if (argc < 2 || pthread_create(&thread, NULL, run, NULL)) return 2;
  for (int i = 0; i < 3; i++) {
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) return 3;
    double (*mix)(int, double) = (double (*)(int, double))dlsym(library, "subject_mix");
    int (*deep)(int) = (int (*)(int))dlsym(library, "subject_deep");
    printf("%g %d\n", mix(2, 3), deep(10));
    dlclose(library);
  }
  __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  return 0;
}
