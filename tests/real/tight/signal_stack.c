/* SPDX-License-Identifier: MIT
 *
 * A program whose alternate signal stack is as small as SIGSTKSZ was for decades, with nothing
 * mapped below it. It computes, and its libraries come and go meanwhile; then, as told, it crashes.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define STACK 8192
#define GUARD 65536

static volatile unsigned long compared;

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b) {
  for (int i = 0; i < 300; i++)
    compared++;
  return memcmp(a, b, sizeof(int));
}

static void compute(int *numbers, int count) {
  for (int i = 0; i < count; i++)
    numbers[i] = rand();
  qsort(numbers, (size_t)count, sizeof *numbers, compare);
  void *library = dlopen("libm.so.6", RTLD_NOW);
  if (library) dlclose(library);
}

int main(int argc, char **argv) {
  static int numbers[1000];
  char *memory =
      mmap(NULL, GUARD + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0) return 2;
  stack_t stack = {.ss_sp = memory + GUARD, .ss_size = STACK};
  if (sigaltstack(&stack, NULL) != 0) return 2;
  for (double end = cpu_seconds() + 0.5; cpu_seconds() < end;)
    compute(numbers, 1000);
  if (argc > 1 && strcmp(argv[1], "crash") == 0) raise(SIGFPE);
  return 0;
}
