/* SPDX-License-Identifier: MIT
 *
 * Threads that get no SIGURG: unsignalled blocked|signalfd|replaced|short|owner MS. Each thread
 * burns MS of its own CPU time and prints its function, tid and CPU clock. The last line is the CPU
 * clock of the process and how many threads it had. With owner, an event loop stalls on a mutex
 * whose owner blocks all signals and works. The line says whether SIGURG is then pending for the
 * owner.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long most_ns;
static volatile uint64_t work;

static long clock_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

__attribute__((noinline)) static void burn(void) {
  for (int i = 0; i < 100000; i++)
    work += (uint64_t)i * work;
}

static void tell(const char *function) {
  printf("%s %ld %ld\n", function, (long)syscall(SYS_gettid), clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

#define BURNER(name)                                                                               \
  __attribute__((noinline)) static void *name(void *unused) {                                      \
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < most_ns)                                            \
      burn();                                                                                      \
    tell(#name);                                                                                   \
    return unused;                                                                                 \
  }
BURNER(blocked)
BURNER(signalfd_reader)
BURNER(replaced)
BURNER(brief)

static void run(void *(*function)(void *)) {
  pthread_t thread;
  pthread_create(&thread, NULL, function, NULL);
  pthread_join(thread, NULL);
}

static void block(int which) {
  sigset_t all;
  if (which)
    sigemptyset(&all), sigaddset(&all, which);
  else
    sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void on_signal(int number) { (void)number; }

/* As the runtime of a language does, past the C library. */
static void replace_handler(void) {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
  } action;
  syscall(SYS_rt_sigaction, SIGURG, NULL, &action, 8); /* for the restorer */
  action.handler = on_signal;
  action.flags &= ~(unsigned long)(SA_SIGINFO | SA_ONSTACK);
  action.flags |= SA_RESTART;
  syscall(SYS_rt_sigaction, SIGURG, &action, NULL, 8);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int owned[2];

static void *owner(void *unused) {
  sigset_t pending;
  block(0);
  pthread_mutex_lock(&lock);
  if (write(owned[1], "", 1) != 1) abort();
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < most_ns)
    burn();
  sigpending(&pending);
  pthread_mutex_unlock(&lock);
  printf("pending %d\n", sigismember(&pending, SIGURG));
  return unused;
}

static void stall_on_owner(void) {
  pthread_t thread;
  if (pipe(owned)) abort();
  struct pollfd event = {.fd = owned[0], .events = POLLIN};
  for (int i = 0; i < 40; i++)
    poll(&event, 1, 5);
  pthread_create(&thread, NULL, owner, NULL);
  while (poll(&event, 1, 5) != 1) {
  }
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  event.events = 0;
  for (int i = 0; i < 10; i++)
    poll(&event, 1, 5);
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  int threads = 1;
  if (argc != 3) return 2;
  most_ns = atol(argv[2]) * 1000000;
  if (!strcmp(argv[1], "owner")) {
    stall_on_owner();
    return 0;
  }
  if (!strcmp(argv[1], "blocked")) {
    block(0);
    run(blocked);
    threads = 2;
  } else if (!strcmp(argv[1], "signalfd")) {
    sigset_t urgent;
    sigemptyset(&urgent);
    sigaddset(&urgent, SIGURG);
    block(SIGURG);
    if (signalfd(-1, &urgent, SFD_NONBLOCK) < 0) return 1;
    signalfd_reader(NULL);
  } else if (!strcmp(argv[1], "replaced")) {
    replace_handler();
    run(replaced);
    threads = 2;
  } else {
    for (; threads <= 60; threads++)
      run(brief);
  }
  printf("process %d %ld\n", threads, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
  return 0;
}
