// SPDX-License-Identifier: MIT
// does: handles a signal of a timer 50 times a second
// record:
// build: gcc -O1 -g
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;

static void on_tick(int number) { ticks += number == SIGALRM; }

int main(void) {
  struct sigaction action = {.sa_handler = on_tick};
  struct itimerval every = {{0, 20000}, {0, 20000}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  while (ticks < 75)
    pause();
  printf("%d\n", (int)ticks);
}
