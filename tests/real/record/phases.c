/* SPDX-License-Identifier: MIT
 *
 * So many threads use so many seconds of CPU time each, half in `first` and then half in `second`,
 * which takes no signal while it works if the third word is "hold", and takes signals only now and
 * then if it is "moments". One thread runs after the other if it is "turn". Prints the CPU seconds
 * of the two, and of the program.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 128 };

typedef struct used {
  double first, second;
} used_t;

#define MOMENT 0.02

static double half; /* of the seconds */
static double held; /* so many of them at a time */

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

void first(void) { burn(half); }

void second(void) {
  double end = cpu(CLOCK_THREAD_CPUTIME_ID) + half;
  sigset_t all, before;
  sigfillset(&all);
  do {
    pthread_sigmask(SIG_SETMASK, held > 0 ? &all : NULL, &before);
    burn(held > 0 ? held : half);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  } while (cpu(CLOCK_THREAD_CPUTIME_ID) < end);
}

static void *work(void *context) {
  double began = cpu(CLOCK_THREAD_CPUTIME_ID);
  first();
  double middle = cpu(CLOCK_THREAD_CPUTIME_ID);
  second();
  *(used_t *)context = (used_t){middle - began, cpu(CLOCK_THREAD_CPUTIME_ID) - middle};
  return NULL;
}

int main(int count, char **words) {
  int threads = count > 2 ? atoi(words[1]) : 0;
  if (threads < 1 || threads > THREADS_MAX) return 2;
  half = atof(words[2]) / 2;
  const char *how = count > 3 ? words[3] : "";
  bool turns = !strcmp(how, "turn");
  held = !strcmp(how, "hold") ? half : !strcmp(how, "moments") ? MOMENT : 0;
  pthread_t others[THREADS_MAX];
  used_t used[THREADS_MAX], all = {0};
  for (int i = 1; i < threads; i++) {
    pthread_create(&others[i], NULL, work, &used[i]);
    if (turns) pthread_join(others[i], NULL);
  }
  work(&used[0]);
  for (int i = 1; i < threads && !turns; i++)
    pthread_join(others[i], NULL);
  for (int i = 0; i < threads; i++) {
    all.first += used[i].first;
    all.second += used[i].second;
  }
  printf("%f %f %f\n", all.first, all.second, cpu(CLOCK_PROCESS_CPUTIME_ID));
  return 0;
}
