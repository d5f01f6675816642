/* SPDX-License-Identifier: MIT
 *
 * Burns CPU time in known proportions, on the main thread and on another; a third one sleeps.
 * Prints the CPU seconds it used.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double cpu(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void burn(double seconds) {
  double end = cpu(CLOCK_THREAD_CPUTIME_ID) + seconds;
  while (cpu(CLOCK_THREAD_CPUTIME_ID) < end)
    for (volatile int i = 0; i < 20000; i++) {
    }
}

void three_parts(void) { burn(0.45); }
void one_part(void) { burn(0.15); }

static void *other(void *unused) {
  one_part();
  three_parts();
  return unused;
}

static void *sleeper(void *unused) {
  usleep(1500000);
  return unused;
}

int main(void) {
  pthread_t a, b;
  pthread_create(&a, NULL, sleeper, NULL);
  pthread_create(&b, NULL, other, NULL);
  three_parts();
  one_part();
  pthread_join(b, NULL);
  pthread_join(a, NULL);
  printf("%f\n", cpu(CLOCK_PROCESS_CPUTIME_ID));
  return 0;
}
