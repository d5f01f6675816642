/* SPDX-License-Identifier: MIT
 *
 * A crash handler that prints the signal, the stack of the crashed thread, and the stacks of all
 * other threads. It may be copied into any program:
 *
 *   crash_handler_install();         once, from main
 *   crash_handler_thread();          from every thread whose stack overflow is to be reported
 *
 * The heap, stdio's locks and the crashed thread's stack may be damaged. So the handler uses only
 * write(), sonde, and memory that was allocated before. Afterwards the program dies of the same
 * signal as without the handler, with a core dump.
 *
 *   cc crash_handler.c -lsonde -pthread
 *   ./a.out worker|malloc|overflow    crashes in that way
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
#ifndef OTHER_THREADS_NS
#define OTHER_THREADS_NS 500000000 /* how long the stacks of threads that run are waited for */
#endif

/* ---- text ------------------------------------------------------------------------------------ */

static void print_text(const char *text) {
  size_t size = strlen(text);
  while (size > 0) {
    ssize_t wrote = write(STDERR_FILENO, text, size);
    if (wrote <= 0) return;
    text += wrote;
    size -= (size_t)wrote;
  }
}

static void print_number(long value) {
  char text[24], *at = text + sizeof text - 1;
  *at = 0;
  do
    *--at = (char)('0' + value % 10);
  while (value /= 10);
  print_text(at);
}

/* ---- the report ------------------------------------------------------------------------------ */

static uintptr_t own_pcs[FRAMES_MAX];
static uintptr_t pcs[THREADS_MAX * FRAMES_MAX];
static sonde_thread_stack_t threads[THREADS_MAX];

static void print_thread(const sonde_thread_t *thread) {
  print_text("\nthread ");
  print_number(thread->tid);
  print_text(" ");
  print_text(thread->name);
}

static void print_stack(const sonde_capture_t *stack, unsigned flags) {
  sonde_stack_print(STDERR_FILENO, stack->pcs, stack->count, flags);
  if (stack->status == SONDE_STACK_COMPLETE) return;
  print_text(stack->status == SONDE_STACK_TRUNCATED ? "     more frames follow"
                                                    : "     the walk ended: ");
  print_text(stack->status == SONDE_STACK_TRUNCATED ? "" : sonde_strerror(stack->reason));
  print_text("\n");
}

static pid_t print_crashed_thread(const void *context) {
  sonde_capture_t stack = {.pcs = own_pcs, .max = FRAMES_MAX, .ucontext = context};
  sonde_thread_t self;
  sonde_capture(&stack);
  if (sonde_thread(gettid(), &self) != 0) self = (sonde_thread_t){.tid = gettid()};
  print_thread(&self);
  print_text(" crashed\n");
  print_stack(&stack, SONDE_NAME_EXACT);
  return self.tid;
}

static void print_other_threads(pid_t crashed) {
  sonde_all_t all = {.threads = threads,
                     .max = THREADS_MAX,
                     .pcs = pcs,
                     .depth = FRAMES_MAX,
                     .options = {.timeout_ns = OTHER_THREADS_NS}};
  sonde_capture_all(&all);
  for (int i = 0; i < all.count; i++) {
    if (threads[i].thread.tid == crashed) continue;
    print_thread(&threads[i].thread);
    print_text("\n");
    print_stack(&threads[i].stack, SONDE_NAME_EXACT); /* the pc is exact, not a return address */
  }
  if (all.total > all.count) print_text("\nmore threads exist\n");
}

static void report(int signal, siginfo_t *info, void *context) {
  static int reporting;
  if (__atomic_exchange_n(&reporting, 1, __ATOMIC_ACQ_REL))
    for (;;)
      pause(); /* another thread crashed first: its report shows this one */
  int fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
  print_text("\nfatal signal ");
  print_number(signal);
  print_text("\n");
  print_other_threads(print_crashed_thread(context));
  /* The action is the default one again (SA_RESETHAND). A fault happens again on return. */
  if (!fault || info->si_code <= 0) raise(signal);
}

/* ---- installing it --------------------------------------------------------------------------- */

/* Gives the calling thread a stack for its handlers, above a page that faults. */
void crash_handler_thread(void) {
  char *memory = mmap(NULL, 4096 + SIGNAL_STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return;
  mprotect(memory, 4096, PROT_NONE);
  stack_t stack = {.ss_sp = memory + 4096, .ss_size = SIGNAL_STACK};
  sigaltstack(&stack, NULL);
}

void crash_handler_install(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  struct sigaction action = {.sa_sigaction = report,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGURG); /* sonde requests stacks of running threads with it */
  crash_handler_thread();
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    sigaction(signals[i], &action, NULL);
}

/* ---- something to crash ---------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int endless = 1;

static int arrived;

__attribute__((noinline)) static void *wait_for_lock(void *unused) {
  __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&lock);
  return unused;
}

__attribute__((noinline)) static void *compute(void *unused) {
  __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
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
  char frame[500];
  frame[depth % 500] = outer[0];
  return endless ? recurse(frame, depth + 1) + frame[1] : 0;
}

__attribute__((noinline)) static void *crash_overflow(void *unused) {
  char first = 1;
  crash_handler_thread();
  recurse(&first, 0);
  return unused;
}

typedef struct job {
  const char *name;
  void *(*run)(void *);
} job_t;

/* A thread names itself: it may crash before another one does it. */
static void *run_job(void *context) {
  const job_t *job = context;
  pthread_setname_np(pthread_self(), job->name);
  return job->run(NULL);
}

static pthread_t start(job_t *job) {
  pthread_t thread;
  pthread_create(&thread, NULL, run_job, job);
  return thread;
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "worker";
  void *(*run)(void *) = strcmp(way, "malloc") == 0     ? crash_malloc
                         : strcmp(way, "overflow") == 0 ? crash_overflow
                         : strcmp(way, "worker") == 0   ? crash_worker
                                                        : NULL;
  if (!run) {
    print_text("usage: crash_handler [worker|malloc|overflow]\n");
    return 2;
  }
  job_t waiter = {"waiter", wait_for_lock}, computer = {"computer", compute};
  job_t crasher = {"crasher", run};
  crash_handler_install();
  pthread_mutex_lock(&lock);
  start(&waiter);
  start(&computer);
  while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < 2)
    usleep(1000);
  pthread_join(start(&crasher), NULL);
  return 0;
}
