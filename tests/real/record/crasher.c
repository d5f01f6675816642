/* SPDX-License-Identifier: MIT
 *
 * Ends by a signal, with threads that wait and one that computes. usage: crasher HOW
 *   segv, abort, fpe, kill (sends itself a SIGSEGV), trap, handler (has one of its own, which says
 *   so and goes on by itself), again (its own handler goes back to the default), overflow,
 *   other (a thread crashes), see (tells what the program sees of the actions)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int zero, started;
static sigjmp_buf back;

__attribute__((noinline)) static void fall_here(void) {
  *(volatile int *)(zero + 0x10L) = 1;
  __asm__ volatile("");
}

__attribute__((noinline)) static void *wait_here(void *unused) {
  __atomic_add_fetch(&started, 1, __ATOMIC_RELEASE);
  for (;;)
    pause();
  return unused;
}

__attribute__((noinline)) static void *compute_here(void *unused) {
  __atomic_add_fetch(&started, 1, __ATOMIC_RELEASE);
  for (volatile long i = 0;; i++) {
  }
  return unused;
}

static void *crash_elsewhere(void *unused) {
  fall_here();
  return unused;
}

__attribute__((noinline)) static int overflow(int n) {
  volatile char room[4096];
  memset((char *)room, n, sizeof room);
  return overflow(n + 1) + room[0];
}

static void on_signal(int number) {
  static const char said[] = "handled\n";
  if (write(1, said, sizeof said - 1) < 0) _exit(9);
  (void)number;
  siglongjmp(back, 1);
}

static void once(int number) {
  static const char said[] = "once\n";
  if (write(1, said, sizeof said - 1) < 0) _exit(9);
  signal(number, SIG_DFL);
}

static const char *kind(void (*handler)(int)) {
  return handler == SIG_DFL ? "default" : handler == SIG_IGN ? "ignore" : "handler";
}

static void see_stack(void) {
  static char memory[1 << 16];
  const stack_t own = {.ss_sp = memory, .ss_size = sizeof memory}, none = {.ss_flags = SS_DISABLE};
  const stack_t *wanted[] = {NULL, &own, &none, NULL};
  for (int i = 0; i < 4; i++) {
    stack_t old;
    int status = sigaltstack(wanted[i], &old);
    printf("%d %d %zu %d\n", status, old.ss_flags, old.ss_size, old.ss_sp == memory);
  }
}

static void see(void) {
  see_stack();
  struct sigaction old;
  sigaction(SIGSEGV, NULL, &old);
  printf("%s %d\n", kind(old.sa_handler), old.sa_flags);
  printf("%s\n", kind(signal(SIGABRT, on_signal)));
  printf("%s\n", kind(signal(SIGABRT, SIG_DFL)));
  printf("%s\n", kind(signal(SIGABRT, SIG_IGN)));
  printf("%s\n", kind(signal(SIGABRT, SIG_DFL)));
  struct sigaction action = {.sa_handler = once, .sa_flags = SA_RESETHAND};
  sigaction(SIGSEGV, &action, &old);
  printf("%s\n", kind(old.sa_handler));
  raise(SIGSEGV);
  sigaction(SIGSEGV, NULL, &old);
  printf("%s\n", kind(old.sa_handler));
}

int main(int argc, char **argv) {
  pthread_t thread;
  setvbuf(stdout, NULL, _IONBF, 0);
  const char *how = argc > 1 ? argv[1] : "segv";
  if (!strcmp(how, "see")) {
    see();
    return 0;
  }
  for (int i = 0; i < 3; i++)
    pthread_create(&thread, NULL, i ? wait_here : compute_here, NULL);
  while (started < 3)
    usleep(1000);
  usleep(50000);
  if (!strcmp(how, "segv")) fall_here();
  if (!strcmp(how, "abort")) abort();
  if (!strcmp(how, "fpe")) raise(SIGFPE);
  if (!strcmp(how, "kill")) kill(getpid(), SIGSEGV);
  if (!strcmp(how, "trap")) raise(SIGTRAP);
  if (!strcmp(how, "overflow")) printf("%d\n", overflow(1));
  if (!strcmp(how, "other")) pthread_create(&thread, NULL, crash_elsewhere, NULL);
  if (!strcmp(how, "again")) {
    signal(SIGSEGV, once);
    fall_here();
  }
  if (!strcmp(how, "handler")) {
    signal(SIGSEGV, on_signal);
    if (!sigsetjmp(back, 1)) fall_here();
    return 7;
  }
  pause();
  return 0;
}
