/* SPDX-License-Identifier: MIT
 *
 * Threads that get their names after they have allocated, in every way there is, and in a program
 * that another one became by execve. usage: named [again]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static pthread_barrier_t began, named;

static void allocate(void) {
  void *volatile p = malloc(10);
  free(p);
}

static void *by_pthread(void *unused) {
  allocate();
  pthread_setname_np(pthread_self(), "first-name");
  allocate();
  pthread_setname_np(pthread_self(), "by-pthread");
  return unused; /* and nothing is allocated after that */
}

static void *by_prctl(void *unused) {
  allocate();
  prctl(PR_SET_NAME, "by-prctl-cut-at-fifteen");
  return unused;
}

static void *by_another(void *unused) {
  allocate();
  pthread_barrier_wait(&began);
  pthread_barrier_wait(&named);
  return unused;
}

static void *before(void *unused) {
  prctl(PR_SET_NAME, "before");
  allocate();
  return unused;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    prctl(PR_SET_NAME, "of-before-exec");
    allocate();
    execl(argv[0], argv[0], (char *)NULL);
    return 1;
  }
  allocate();
  void *(*const work[])(void *) = {by_pthread, by_prctl, by_another, before};
  pthread_t thread[4];
  pthread_barrier_init(&began, NULL, 2);
  pthread_barrier_init(&named, NULL, 2);
  for (int i = 0; i < 4; i++)
    if (pthread_create(&thread[i], NULL, work[i], NULL)) return 1;
  pthread_barrier_wait(&began);
  pthread_setname_np(thread[2], "by-another");
  pthread_barrier_wait(&named);
  for (int i = 0; i < 4; i++)
    pthread_join(thread[i], NULL);
  if (prctl(PR_SET_NAME, 1) != -1) return 1; /* as without us: EFAULT */
  prctl(PR_SET_NAME, "main-at-last");
  puts("done");
  return 0;
}
