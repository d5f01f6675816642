// SPDX-License-Identifier: MIT
// does: a daemon that waits for a signal, looked at while it runs
// why: 1.0
// build: gcc -O1 -g -pthread
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void *refresh(void *unused) {
  for (int i = 0; i < 100; i++)
    sleep(1);
  return unused;
}

int main(void) {
  sigset_t set;
  int got;
  pthread_t thread;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  pthread_create(&thread, NULL, refresh, NULL);
  sigwait(&set, &got);
  printf("signal %d\n", got);
}
