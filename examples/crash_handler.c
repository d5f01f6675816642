/* SPDX-License-Identifier: MIT
 *
 * A crash handler that prints every thread: what happened, the stack of the thread that crashed,
 * then those of all others. It may be copied into any program:
 *
 *   crash_handler_install();         once, from main
 *   crash_handler_thread();          from every thread whose stack overflows shall be reported too
 *
 * A handler may find anything broken: the heap, stdio's locks, the crashed thread's stack. So it
 * uses nothing but write() and sonde, which needs neither, and memory that was there before. When
 * it is done the program dies of the same signal as it would have without it, with its core dump.
 *
 *   cc crash_handler.c -lsonde -pthread
 *   ./a.out worker|malloc|overflow    crashes in that way, to show it
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sonde/sonde.h>

#if defined(__APPLE__)
#define MAP_STACK                0
#define pthread_setname_np(t, n) (void)(n) /* a thread can name only itself there */
static pid_t gettid(void) {
  uint64_t id = 0;
  pthread_threadid_np(NULL, &id);
  return (pid_t)(id & INT32_MAX);
}
#endif

#define THREADS_MAX  256
#define FRAMES_MAX   64
#define SIGNAL_STACK (64 << 10)

/* ---- text ------------------------------------------------------------------------------------ */

static void say(const char *text) {
  size_t size = strlen(text);
  while (size > 0) {
    ssize_t wrote = write(STDERR_FILENO, text, size);
    if (wrote <= 0) return;
    text += wrote;
    size -= (size_t)wrote;
  }
}

static void say_number(long value) {
  char text[24], *at = text + sizeof text - 1;
  *at = 0;
  do
    *--at = (char)('0' + value % 10);
  while (value /= 10);
  say(at);
}

/* ---- the report ------------------------------------------------------------------------------ */

static uintptr_t own_pcs[FRAMES_MAX];
static uintptr_t pcs[THREADS_MAX * FRAMES_MAX];
static sonde_thread_stack_t threads[THREADS_MAX];

static void say_thread(const sonde_thread_t *thread) {
  say("\nthread ");
  say_number(thread->tid);
  say(" ");
  say(thread->name);
}

static void say_stack(const sonde_capture_t *stack, unsigned flags) {
  sonde_stack_print(STDERR_FILENO, stack->pcs, stack->count, flags);
  if (stack->status == SONDE_STACK_COMPLETE) return;
  say(stack->status == SONDE_STACK_TRUNCATED ? "     and more frames" : "     no further: ");
  say(stack->status == SONDE_STACK_TRUNCATED ? "" : sonde_strerror(stack->reason));
  say("\n");
}

static pid_t say_crashed_thread(const void *context) {
  sonde_capture_t stack = {.pcs = own_pcs, .max = FRAMES_MAX, .ucontext = context};
  sonde_thread_t self;
  sonde_capture(&stack);
  if (sonde_thread(gettid(), &self) != 0) self = (sonde_thread_t){.tid = gettid()};
  say_thread(&self);
  say(" crashed\n");
  say_stack(&stack, SONDE_NAME_EXACT);
  return self.tid;
}

static void say_other_threads(pid_t crashed) {
  sonde_all_t all = {.threads = threads,
                     .max = THREADS_MAX,
                     .pcs = pcs,
                     .depth = FRAMES_MAX,
                     .options = {.timeout_ns = 500000000}};
  sonde_capture_all(&all);
  for (int i = 0; i < all.count; i++) {
    if (threads[i].thread.tid == crashed) continue;
    say_thread(&threads[i].thread);
    say("\n");
    say_stack(&threads[i].stack, SONDE_NAME_EXACT); /* where it will go on */
  }
  if (all.total > all.count) say("\nand more threads\n");
}

static void report(int signal, siginfo_t *info, void *context) {
  static int reporting;
  if (__atomic_exchange_n(&reporting, 1, __ATOMIC_ACQ_REL))
    for (;;)
      pause(); /* another thread crashed first: its report shows this one */
  int fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
  say("\nfatal signal ");
  say_number(signal);
  say("\n");
  say_other_threads(say_crashed_thread(context));
  /* The action is the default one again (SA_RESETHAND). A fault happens again on return. */
  if (!fault || info->si_code <= 0) raise(signal);
}

/* ---- installing it --------------------------------------------------------------------------- */

/* Gives the calling thread a stack for its handlers, above a page that faults. */
void crash_handler_thread(void) {
  char *room = mmap(NULL, 4096 + SIGNAL_STACK, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (room == MAP_FAILED) return;
  mprotect(room, 4096, PROT_NONE);
  stack_t stack = {.ss_sp = room + 4096, .ss_size = SIGNAL_STACK};
  sigaltstack(&stack, NULL);
}

void crash_handler_install(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  struct sigaction action = {.sa_sigaction = report,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGURG); /* by which sonde asks running threads */
  crash_handler_thread();
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    sigaction(signals[i], &action, NULL);
}

/* ---- something to crash ---------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int endless = 1;

__attribute__((noinline)) static void *wait_for_lock(void *unused) {
  pthread_mutex_lock(&lock);
  return unused;
}

__attribute__((noinline)) static void *compute(void *unused) {
  while (endless) {
  }
  return unused;
}

__attribute__((noinline)) static int sum(const volatile int *numbers, int count) {
  int total = 0;
  for (int i = 0; i < count; i++)
    total += numbers[i];
  return total;
}

__attribute__((noinline)) static void *crash_worker(void *numbers) {
  crash_handler_thread();
  return (void *)(intptr_t)sum(numbers, 10);
}

/* Writes past the end of a block; malloc finds its own data overwritten, while it holds its lock.
 */
__attribute__((noinline)) static void *crash_malloc(void *unused) {
  volatile char *volatile block = malloc(5000);
  for (int i = 0; block && i < 5040; i++)
    block[i] = -1;
  block = malloc(5000);
  return unused;
}

__attribute__((noinline)) static int recurse(volatile char *outer, int depth) {
  char room[500];
  room[depth % 500] = outer[0];
  return endless ? recurse(room, depth + 1) + room[1] : 0;
}

__attribute__((noinline)) static void *crash_overflow(void *unused) {
  char first = 1;
  crash_handler_thread();
  recurse(&first, 0);
  return unused;
}

static pthread_t start(const char *name, void *(*run)(void *)) {
  pthread_t thread;
  pthread_create(&thread, NULL, run, NULL);
  pthread_setname_np(thread, name);
  return thread;
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "worker";
  void *(*run)(void *) = strcmp(way, "malloc") == 0     ? crash_malloc
                         : strcmp(way, "overflow") == 0 ? crash_overflow
                         : strcmp(way, "worker") == 0   ? crash_worker
                                                        : NULL;
  if (!run) {
    say("usage: crash_handler [worker|malloc|overflow]\n");
    return 2;
  }
  crash_handler_install();
  pthread_mutex_lock(&lock);
  start("waiter", wait_for_lock);
  start("computer", compute);
  usleep(50000);
  pthread_join(start("crasher", run), NULL);
  return 0;
}
