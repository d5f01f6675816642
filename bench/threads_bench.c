/* SPDX-License-Identifier: MIT
 *
 * The stacks of all threads of the process, by sonde_capture_all.
 *
 *   blocked    100 threads, 20 each in epoll_wait, poll, nanosleep, sem_wait and read, under about
 *              25 frames. Passively: where no thread ran since the last capture and where all ran,
 *              with and without names and states. And by signal. Calls that returned EINTR are
 *              counted, except those that the benchmark itself interrupts to make threads run.
 *              For comparison: the system calls alone that report each thread's place and copy its
 *              stack; those that report whether a thread may be signaled, with a signal that is
 *              only counted; and a loop that only signals each thread and counts
 *   running    as many threads as there are processors, all spinning
 *   spinning   100 threads, all spinning; for comparison a loop that only signals and counts
 *   pause      how long one spinning thread is interrupted by a capture, measured by itself
 *
 * Medians over rounds, after a first round that learns the rules.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"
#include "sonde/thread.h"

#define THREADS 100
#define DEPTH   64
#define ROUNDS  41

typedef struct worker {
  pthread_t thread;
  /* 0 … 4 block, 5 spins. */
  int kind;
  volatile int ready;
  volatile pid_t tid;
  sem_t sem;
  int ends[2];
} worker_t;

static worker_t workers[THREADS];
static volatile int stop, interrupted, sink;
static sonde_thread_stack_t rows[THREADS + 8];
static uintptr_t pcs[(THREADS + 8) * DEPTH];

static void block(worker_t *w) {
  struct epoll_event event = {.events = EPOLLIN};
  struct pollfd pfd = {.fd = w->ends[0], .events = POLLIN};
  struct timespec time = {1000, 0};
  long r = 0;
  char c;
  int e;
  switch (w->kind) {
  case 0:
    e = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(e, EPOLL_CTL_ADD, w->ends[0], &event);
    r = epoll_wait(e, &event, 1, 1000000);
    break;
  case 1: r = poll(&pfd, 1, 1000000); break;
  case 2: r = nanosleep(&time, NULL); break;
  case 3: r = sem_wait(&w->sem); break;
  default: r = read(w->ends[0], &c, 1);
  }
  if (r < 0 && errno == EINTR) __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
}

__attribute__((noinline, noclone)) static void nested(worker_t *w, int depth) {
  volatile char room[40];
  room[0] = (char)depth;
  if (depth > 0)
    nested(w, depth - 1);
  else if (w->kind == 5) {
    w->ready = 1;
    while (!stop)
      sink++;
  } else {
    w->ready = 1;
    while (!stop)
      block(w);
  }
  sink += room[0];
}

static void *worker_main(void *argument) {
  worker_t *w = argument;
  w->tid = (pid_t)syscall(SYS_gettid);
  nested(w, 20);
  return NULL;
}

static void start_workers(int count, bool spinning) {
  stop = interrupted = 0;
  for (int i = 0; i < count; i++) {
    worker_t *w = &workers[i];
    memset(w, 0, sizeof *w);
    w->kind = spinning ? 5 : i % 5;
    sem_init(&w->sem, 0, 0);
    if (pipe(w->ends) != 0) abort();
    pthread_create(&w->thread, NULL, worker_main, w);
  }
  for (int i = 0; i < count; i++)
    while (!workers[i].ready)
      usleep(100);
  usleep(100000);
}

static void do_nothing(int signal) { (void)signal; }

static void stop_workers(int count) {
  stop = 1;
  for (int i = 0; i < count; i++) {
    sem_post(&workers[i].sem);
    (void)!write(workers[i].ends[1], "xx", 2);
    if (workers[i].kind == 2) pthread_kill(workers[i].thread, SIGUSR2);
  }
  for (int i = 0; i < count; i++) {
    pthread_join(workers[i].thread, NULL);
    close(workers[i].ends[0]);
    close(workers[i].ends[1]);
  }
}

/* ---- captures ------------------------------------------------------------------------------- */

typedef struct tally {
  double first_us, median_us;
  /* Of the last round; eintr of all rounds. */
  int complete, signaled, missing, frames, eintr;
} tally_t;

static double capture_once(unsigned flags, tally_t *t) {
  sonde_all_t all = {.threads = rows, .max = THREADS + 8, .pcs = pcs, .depth = DEPTH};
  all.options.flags = flags;
  all.options.timeout_ns = 20000000000u;
  uint64_t start = bench_now_ns();
  int n = sonde_capture_all(&all);
  double us = (double)(bench_now_ns() - start) / 1000;
  t->complete = t->signaled = t->missing = t->frames = 0;
  for (int i = 0; i < n; i++) {
    t->complete += rows[i].stack.status == SONDE_STACK_COMPLETE;
    t->missing += rows[i].stack.status == SONDE_STACK_UNAVAILABLE;
    t->signaled += (rows[i].stack.flags & SONDE_FLAG_SIGNALED) != 0;
    t->frames += rows[i].stack.count;
  }
  return us;
}

static tally_t capture_rounds(unsigned flags, int rounds) {
  tally_t t = {0};
  double us[ROUNDS];
  int before = interrupted;
  t.first_us = capture_once(flags, &t);
  for (int i = 0; i < rounds; i++)
    us[i] = capture_once(flags, &t);
  usleep(50000);
  t.eintr = interrupted - before;
  t.median_us = bench_median(us, rounds);
  return t;
}

static void move_all(void) {
  for (int w = 0; w < THREADS; w++)
    syscall(SYS_tgkill, getpid(), workers[w].tid, SIGUSR2);
  usleep(20000);
}

static int open_tasks(void) { return open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

static void read_file_of(int folder, pid_t tid, const char *file, char text[1024]) {
  char name[32];
  snprintf(name, sizeof name, "%d/%s", tid, file);
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
  ssize_t count = read(fd, text, 1023);
  close(fd);
  if (count <= 0) abort();
  text[count] = 0;
}

/* The stack pointer is the last field but one of /proc/…/syscall. */
static void *stack_pointer(const char *place) {
  const char *at = strrchr(place, ' ');
  while (at && at > place && *--at != ' ')
    continue;
  return at ? (void *)(uintptr_t)strtoull(at, NULL, 16) : NULL;
}

/* The minimum without a signal: open, read and close each thread's place, read its CPU clock before
 * and after, and copy the part of the stack that its frames are in, twenty threads at once. */
static double bare_places(void) {
  enum { AT_ONCE = 20, STACK_BYTES = 2560 };
  static char copies[AT_ONCE][STACK_BYTES];
  struct iovec local[AT_ONCE], remote[AT_ONCE];
  char text[1024];
  struct timespec clock;
  uint64_t start = bench_now_ns();
  int folder = open_tasks();
  for (int w = 0; w < THREADS; w++) {
    clockid_t id = (clockid_t)(~(unsigned)workers[w].tid << 3 | 6);
    syscall(SYS_clock_gettime, id, &clock);
    read_file_of(folder, workers[w].tid, "syscall", text);
    int i = w % AT_ONCE;
    local[i] = (struct iovec){copies[i], STACK_BYTES};
    remote[i] = (struct iovec){stack_pointer(text), STACK_BYTES};
    if (i == AT_ONCE - 1 && process_vm_readv(getpid(), local, AT_ONCE, remote, AT_ONCE, 0) <= 0)
      abort();
    syscall(SYS_clock_gettime, id, &clock);
  }
  close(folder);
  return (double)(bench_now_ns() - start) / 1000;
}

/* Every thread runs between two captures, so that no saved stack is valid. */
static tally_t capture_moved(int rounds, double *bare_us) {
  tally_t t = {0};
  double us[ROUNDS], bare[ROUNDS];
  for (int i = 0; i < rounds; i++) { /* They alternate. */
    move_all();
    us[i] = capture_once(SONDE_NO_THREAD_NAMES, &t);
    move_all();
    bare[i] = bare_places();
  }
  t.first_us = us[0];
  t.median_us = bench_median(us, rounds);
  *bare_us = bench_median(bare, rounds);
  return t;
}

static void print_tally(const char *what, int threads, const tally_t *t) {
  printf("%-34s %8.0f us median, %8.0f us first; complete %d of %d, frames each %.1f, signaled %d, "
         "not reached %d, EINTR %d\n",
         what, t->median_us, t->first_us, t->complete - 1, threads,
         (double)t->frames / (threads + 1), t->signaled, t->missing, t->eintr);
}

/* ---- the bare loop -------------------------------------------------------------------------- */

static uint32_t answers;
static void count_answer(int signal) {
  (void)signal;
  if (__atomic_sub_fetch(&answers, 1, __ATOMIC_ACQ_REL) == 0)
    syscall(SYS_futex, &answers, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static double bare_loop(int count, bool checks) {
  char text[1024];
  uint64_t start = bench_now_ns();
  int folder = checks ? open_tasks() : -1;
  answers = (uint32_t)count;
  for (int i = 0; i < count; i++) {
    if (checks) { /* the signal mask, and whether it waits for signals */
      read_file_of(folder, workers[i].tid, "stat", text);
      read_file_of(folder, workers[i].tid, "syscall", text);
    }
    syscall(SYS_tgkill, getpid(), workers[i].tid, SIGUSR1);
  }
  if (checks) close(folder);
  uint32_t left;
  while ((left = __atomic_load_n(&answers, __ATOMIC_ACQUIRE)) != 0)
    syscall(SYS_futex, &answers, FUTEX_WAIT_PRIVATE, left, NULL, NULL, 0);
  return (double)(bench_now_ns() - start) / 1000;
}

/* All blocked threads by signal, beside both bare loops. */
static tally_t capture_signaled(int rounds, double *bare_us, double *checked_us) {
  tally_t t = {0};
  double us[ROUNDS], bare[ROUNDS], checked[ROUNDS];
  int before = interrupted;
  t.first_us = capture_once(SONDE_SIGNAL_BLOCKED | SONDE_NO_THREAD_NAMES, &t);
  for (int i = 0; i < rounds; i++) { /* They alternate. */
    us[i] = capture_once(SONDE_SIGNAL_BLOCKED | SONDE_NO_THREAD_NAMES, &t);
    usleep(20000);
    t.eintr = interrupted - before;
    bare[i] = bare_loop(THREADS, false);
    usleep(20000);
    checked[i] = bare_loop(THREADS, true);
    usleep(20000);
    before = interrupted - t.eintr; /* those of the bare loops do not count */
  }
  t.median_us = bench_median(us, rounds);
  *bare_us = bench_median(bare, rounds);
  *checked_us = bench_median(checked, rounds);
  return t;
}

static void print_bare(const char *what, double us, const tally_t *t) {
  printf("%-34s %8.0f us median; ratio %.2f\n", what, us, t->median_us / us);
}

static void spinning(int threads, int rounds) {
  double bare[ROUNDS], ours[ROUNDS];
  tally_t t = {0};
  start_workers(threads, true);
  (void)capture_once(SONDE_NO_THREAD_NAMES, &t);
  for (int i = 0; i < rounds; i++) { /* They alternate. */
    bare[i] = bare_loop(threads, false);
    ours[i] = capture_once(SONDE_NO_THREAD_NAMES, &t);
  }
  double b = bench_median(bare, rounds), o = bench_median(ours, rounds);
  printf("%3d spinning, all by signal         %8.0f us median; bare signal and count %8.0f us; "
         "ratio %.2f; complete %d, not reached %d\n",
         threads, o, b, o / b, t.complete - 1, t.missing);
  sonde_all_t all = {.threads = rows, .max = THREADS + 8, .pcs = pcs, .depth = DEPTH};
  all.options.timeout_ns = 5000000;
  uint64_t start = bench_now_ns();
  int n = sonde_capture_all(&all), timed_out = 0;
  for (int i = 0; i < n; i++)
    timed_out += rows[i].stack.reason == SONDE_ETIMEDOUT;
  printf("%3d spinning, deadline 5 ms         %8.0f us; %d reached, %d said to be not\n", threads,
         (double)(bench_now_ns() - start) / 1000, n - timed_out, timed_out);
  stop_workers(threads);
}

/* ---- how long a thread stands still ---------------------------------------------------------- */

static void pin(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

static volatile uint64_t gap_ns;
static void *watch_itself(void *argument) {
  worker_t *w = argument;
  pin(1);
  w->tid = (pid_t)syscall(SYS_gettid);
  uint64_t last = bench_now_ns();
  while (!stop) {
    uint64_t now = bench_now_ns();
    if (now - last > gap_ns) gap_ns = now - last;
    last = now;
    w->ready = 1;
  }
  return NULL;
}

/* Each of the two has a processor. Other load affects the maximum, not the median. A signal whose
 * handler does nothing is the baseline. */
enum { SAMPLES = 1000 };
static double stand_still_for(worker_t *w, bool bare, double *at_90) {
  static double gaps[SAMPLES];
  for (int i = 0; i < SAMPLES; i++) {
    usleep(300);
    gap_ns = 0;
    if (bare)
      syscall(SYS_tgkill, getpid(), w->tid, SIGUSR2);
    else
      sonde_stack_of_thread(w->tid, pcs, DEPTH);
    uint64_t start = bench_now_ns();
    while (bench_now_ns() - start < 50000) {
    }
    gaps[i] = (double)gap_ns / 1000;
  }
  double median = bench_median(gaps, SAMPLES);
  *at_90 = gaps[SAMPLES * 9 / 10];
  return median;
}

static void stand_still(void) {
  worker_t *w = &workers[0];
  cpu_set_t before;
  memset(w, 0, sizeof *w);
  sched_getaffinity(0, sizeof before, &before);
  if (!CPU_ISSET(0, &before) || !CPU_ISSET(1, &before)) return;
  pin(0);
  stop = 0;
  pthread_create(&w->thread, NULL, watch_itself, w);
  while (!w->ready)
    usleep(100);
  double bare_90, ours_90;
  double bare = stand_still_for(w, true, &bare_90), ours = stand_still_for(w, false, &ours_90);
  stop = 1;
  pthread_join(w->thread, NULL);
  sched_setaffinity(0, sizeof before, &before);
  printf(
      "a running thread stands still       %8.2f us median, %.2f us at 90 %%; for a signal whose "
      "handler is empty %.2f and %.2f us\n",
      ours, ours_90, bare, bare_90);
}

int main(void) {
  signal(SIGUSR2, do_nothing);
  signal(SIGUSR1, count_answer);
  int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
  tally_t t;

  start_workers(THREADS, false);
  t = capture_rounds(SONDE_NO_THREAD_NAMES, ROUNDS);
  print_tally("100 blocked, in place, at rest", THREADS, &t);
  double bare_us;
  t = capture_moved(ROUNDS, &bare_us);
  print_tally("100 blocked, in place, all moved", THREADS, &t);
  print_bare("  the system's calls for it alone", bare_us, &t);
  t = capture_rounds(0, ROUNDS);
  print_tally("100 blocked, with names and states", THREADS, &t);
  double checked_us;
  t = capture_signaled(ROUNDS, &bare_us, &checked_us);
  print_tally("100 blocked, by signal", THREADS, &t);
  print_bare("  the system's calls for it alone", checked_us, &t);
  print_bare("  bare signal and count", bare_us, &t);
  stop_workers(THREADS);

  start_workers(processors, true);
  t = capture_rounds(SONDE_NO_THREAD_NAMES, ROUNDS);
  print_tally("running, one a processor", processors, &t);
  stop_workers(processors);

  stand_still();
  spinning(THREADS, 7);
  return 0;
}
