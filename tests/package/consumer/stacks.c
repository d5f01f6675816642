/* SPDX-License-Identifier: MIT
 *
 * A program that is built from the amalgamation: prints the stacks of its own thread, of a blocked
 * thread and of a running one. The functions on each stack are known.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "sonde.h"

#define NOINLINE __attribute__((noinline))

static int pipe_of_waiter[2];
static volatile int computing, done;

static NOINLINE void wait_for_byte(void) {
  char byte;
  (void)!read(pipe_of_waiter[0], &byte, 1);
}

static NOINLINE void *run_waiter(void *unused) {
  wait_for_byte();
  return unused;
}

static NOINLINE void compute(void) {
  while (!done)
    computing = 1;
}

static NOINLINE void *run_computer(void *unused) {
  compute();
  return unused;
}

static pid_t id_of(const char *state_wanted, pthread_t thread) {
  pid_t tid = sonde_thread_of_pthread(thread);
  sonde_thread_t now = {0};
  while (sonde_thread(tid, &now) == 0 && now.state != *state_wanted)
    usleep(1000);
  return tid;
}

static int show(const char *title, const uintptr_t *pcs, int count, unsigned flags) {
  printf("%s %d\n", title, count);
  fflush(stdout);
  return count > 0 && sonde_stack_print(1, pcs, count, flags) == count;
}

static NOINLINE int show_own(void) {
  uintptr_t pcs[64], again[64];
  char text[4096];
  uint32_t id = 0;
  int count = sonde_stack(pcs, 64);
  int status = sonde_stack_id(&id);
  return show("own", pcs, count, 0) && status == 0 && sonde_stack_of_id(id, again, 64) == count &&
         again[1] == pcs[1] && sonde_stack_text(id, 0, text, sizeof text) > 0;
}

int main(void) {
  pthread_t waiter, computer;
  uintptr_t pcs[64];
  if (pipe(pipe_of_waiter)) return 2;
  pthread_create(&waiter, NULL, run_waiter, NULL);
  pthread_create(&computer, NULL, run_computer, NULL);
  while (!computing)
    usleep(1000);
  int good = show_own();
  good &=
      show("blocked", pcs, sonde_stack_of_thread(id_of("S", waiter), pcs, 64), SONDE_NAME_EXACT);
  good &=
      show("running", pcs, sonde_stack_of_thread(id_of("R", computer), pcs, 64), SONDE_NAME_EXACT);
  done = 1;
  (void)!write(pipe_of_waiter[1], "", 1);
  pthread_join(waiter, NULL);
  pthread_join(computer, NULL);
  return !good;
}
