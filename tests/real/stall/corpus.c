/* SPDX-License-Identifier: MIT
 *
 * A corpus of stalls with known culprits, for tests/real/stalls.py.
 *
 * usage: corpus SEED THRESHOLD_MS KIND…
 *
 * An event loop that turns quickly, but for one turn a kind. What each of those did is printed as a
 * line of JSON when it is over: kind, culprits (any of them is right), causes, when it began
 * (CLOCK_MONOTONIC), how long it took, and how much of that it was ready and got no CPU. Durations
 * and phases are drawn from SEED. What uses the CPU is measured by the thread's own CPU time, so
 * that a busy machine does not change who took longer. The culprits are noinline; it is built
 * without the folding of equal functions and tail calls.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "../../leaf.h"

#define CULPRIT __attribute__((noinline, noclone)) static

static uint64_t random_state, threshold_us;
static volatile uint64_t sink;

static uint64_t draw(uint64_t low, uint64_t high) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return low + (random_state >> 33) % (high - low + 1);
}

static uint64_t clock_us(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

#define cpu_us() clock_us(CLOCK_THREAD_CPUTIME_ID)

/* A culprit burns in its own body: a helper would be the innermost function. */
#define BURN(us)                                                                                   \
  for (uint64_t end_us_ = cpu_us() + (us); cpu_us() < end_us_;)                                    \
    for (int i_ = 0; i_ < 20000; i_++)                                                             \
      sink += (uint64_t)i_ * sink;

/* How long the thread has waited for a CPU so far. */
static uint64_t starved_us(void) {
  char text[96];
  int fd = open("/proc/thread-self/schedstat", O_RDONLY);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (n <= 0) return 0;
  text[n] = 0;
  const char *second = strchr(text, ' ');
  return second ? strtoull(second, NULL, 10) / 1000 : 0;
}

static void sleep_us(uint64_t us) {
  struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  nanosleep(&t, NULL);
}

/* ---- on the CPU --------------------------------------------------------------------------- */

CULPRIT void hot_loop(uint64_t us) { BURN(us); }
CULPRIT void bystander(uint64_t us) { BURN(us); }
CULPRIT void deep_culprit(uint64_t us) { BURN(us); }
CULPRIT void deep_c(uint64_t us) {
  deep_culprit(us);
  sink++;
}
CULPRIT void deep_b(uint64_t us) {
  deep_c(us);
  sink++;
}
CULPRIT void deep_a(uint64_t us) {
  deep_b(us);
  sink++;
}
CULPRIT void third_one(uint64_t us) { BURN(us); }
CULPRIT void third_two(uint64_t us) { BURN(us); }
CULPRIT void third_three(uint64_t us) { BURN(us); }

/* Helpers in turn, none with most of the time: who called them is to blame. Of no fixed period,
 * which a scheduler's slices could be in step with. */
CULPRIT void alternates(uint64_t us) {
  for (int i = 0; i < 20; i++) {
    third_one(us * draw(7, 13) / 600);
    third_two(us * draw(7, 13) / 600);
    third_three(us * draw(7, 13) / 600);
  }
  sink++;
}

CULPRIT void alternating_major(uint64_t us) { BURN(us); }
CULPRIT void alternating_minor(uint64_t us) { BURN(us); }
static void alternate_unequal(uint64_t us) {
  for (int i = 0; i < 10; i++) {
    alternating_major(us * 7 / 100);
    alternating_minor(us * 3 / 100);
  }
}

CULPRIT void recursive(uint64_t us, int depth) {
  if (depth) {
    recursive(us, depth - 1);
    sink++;
    return;
  }
  BURN(us);
}
static void recursion(uint64_t us) { recursive(us, (int)draw(3, 60)); }

CULPRIT int slow_comparison(const void *a, const void *b) {
  for (int i = 0; i < 4000; i++)
    sink += (uint64_t)i * sink;
  return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}
static void sorting(uint64_t us) {
  int values[64];
  for (uint64_t end = cpu_us() + us; cpu_us() < end;) {
    for (int i = 0; i < 64; i++)
      values[i] = (int)draw(0, 1000);
    qsort(values, 64, sizeof *values, slow_comparison);
  }
}

CULPRIT void copies_memory(uint64_t us) {
  static char from[8 << 20], to[8 << 20];
  for (uint64_t end = cpu_us() + us; cpu_us() < end; sink += (uint64_t)to[5])
    for (int i = 0; i < 4; i++)
      memcpy(to, from + i, sizeof to - 64);
}

CULPRIT void system_calls(uint64_t us) {
  char bytes[65536];
  int fd = open("/dev/urandom", O_RDONLY);
  for (uint64_t end = cpu_us() + us; cpu_us() < end;)
    for (int i = 0; i < 20; i++)
      if (read(fd, bytes, sizeof bytes) < 0) abort();
  close(fd);
}

/* ---- page faults -------------------------------------------------------------------------- */

CULPRIT void faults_anonymous(uint64_t us) {
  enum { BYTES = 32 << 20 };
  for (uint64_t end = cpu_us() + us; cpu_us() < end;) {
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, BYTES, MADV_NOHUGEPAGE);
    for (int i = 0; i < BYTES; i += 4096)
      memory[i] = 1;
    munmap(memory, BYTES);
  }
}

CULPRIT void faults_file(uint64_t us) {
  enum { BYTES = 16 << 20 };
  int fd = memfd_create("faults", 0);
  if (ftruncate(fd, BYTES) < 0) abort();
  for (uint64_t end = cpu_us() + us; cpu_us() < end;) {
    volatile char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    madvise((void *)(uintptr_t)memory, BYTES, MADV_RANDOM);
    for (int i = 0; i < BYTES; i += 4096)
      memory[i] = 1;
    munmap((void *)(uintptr_t)memory, BYTES);
  }
  close(fd);
}

/* ---- late traps: the culprit is over when the threshold is reached ------------------------ */

CULPRIT void trap_culprit_cpu(uint64_t us) { BURN(us); }
CULPRIT void trap_culprit_sleeps(uint64_t us) { sleep_us(us); }
CULPRIT void trap_culprit_reads(int fd) {
  char byte;
  if (read(fd, &byte, 1) != 1) abort();
}

static void late_cpu(uint64_t us) {
  (void)us;
  trap_culprit_cpu(threshold_us * draw(80, 90) / 100);
  bystander(threshold_us * draw(35, 50) / 100);
}
static void late_sleep(uint64_t us) {
  (void)us;
  trap_culprit_sleeps(threshold_us * draw(80, 90) / 100);
  bystander(threshold_us * draw(35, 50) / 100);
}
static void late_then_sleep(uint64_t us) {
  (void)us;
  trap_culprit_cpu(threshold_us * draw(80, 90) / 100);
  sleep_us(threshold_us * draw(35, 50) / 100);
}

/* ---- other threads help ------------------------------------------------------------------- */

typedef struct helper {
  uint64_t us;
  int fd;
  pthread_mutex_t *first, *second;
  pthread_barrier_t *barrier;
  sem_t *semaphore;
  pthread_cond_t *condition;
  pthread_rwlock_t *rwlock;
} helper_t;

static pthread_t start(void *(*run)(void *), helper_t *helper) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, helper)) abort();
  return thread;
}

static void *writes_later(void *context) {
  helper_t *h = context;
  sleep_us(h->us);
  if (write(h->fd, "x", 1) != 1) abort();
  return NULL;
}

static void late_read(uint64_t us) {
  (void)us;
  int fds[2];
  if (pipe(fds) < 0) abort();
  helper_t h = {.us = threshold_us * draw(80, 90) / 100, .fd = fds[1]};
  pthread_t thread = start(writes_later, &h);
  trap_culprit_reads(fds[0]);
  bystander(threshold_us * draw(35, 50) / 100);
  pthread_join(thread, NULL);
  close(fds[0]);
  close(fds[1]);
}

/* ---- blocked ------------------------------------------------------------------------------ */

CULPRIT void sleeps(uint64_t us) { sleep_us(us); }
CULPRIT void naps(uint64_t us) {
  for (int i = 0; i < 40; i++)
    usleep((useconds_t)(us / 40));
}
CULPRIT void reads_pipe(int fd) {
  char byte;
  if (read(fd, &byte, 1) != 1) abort();
}
CULPRIT void receives(int fd) {
  char byte;
  if (recv(fd, &byte, 1, 0) != 1) abort();
}
CULPRIT void polls_client(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  while (poll(&p, 1, -1) != 1) /* a sample may interrupt it */
    if (errno != EINTR) abort();
}
static void blocked_on(uint64_t us, void (*culprit)(int), int domain) {
  int fds[2];
  if (domain ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : pipe(fds)) abort();
  helper_t h = {.us = us, .fd = fds[1]};
  pthread_t thread = start(writes_later, &h);
  culprit(fds[0]);
  pthread_join(thread, NULL);
  close(fds[0]);
  close(fds[1]);
}
static void pipe_read(uint64_t us) { blocked_on(us, reads_pipe, 0); }
static void socket_receive(uint64_t us) { blocked_on(us, receives, 1); }
static void nested_poll(uint64_t us) { blocked_on(us, polls_client, 1); }

static void *empties_later(void *context) {
  helper_t *h = context;
  char bytes[65536];
  sleep_us(h->us);
  if (read(h->fd, bytes, sizeof bytes) <= 0) abort();
  return NULL;
}
CULPRIT void writes_full_pipe(int fd) {
  static char bytes[65536 + 4096];
  if (write(fd, bytes, sizeof bytes) < 0) abort();
}
static void pipe_write(uint64_t us) {
  int fds[2];
  if (pipe(fds) < 0) abort();
  helper_t h = {.us = us, .fd = fds[0]};
  pthread_t thread = start(empties_later, &h);
  writes_full_pipe(fds[1]);
  pthread_join(thread, NULL);
  close(fds[0]);
  close(fds[1]);
}

static const char *lock_path;
static void *holds_file(void *context) {
  helper_t *h = context;
  int fd = open(lock_path, O_RDWR);
  if (flock(fd, LOCK_EX)) abort();
  pthread_barrier_wait(h->barrier);
  sleep_us(h->us);
  close(fd);
  return NULL;
}
CULPRIT void locks_file(int fd) {
  if (flock(fd, LOCK_EX)) abort();
}
static void file_lock(uint64_t us) {
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 2);
  helper_t h = {.us = us, .barrier = &barrier};
  pthread_t thread = start(holds_file, &h);
  pthread_barrier_wait(&barrier);
  int fd = open(lock_path, O_RDWR);
  locks_file(fd);
  pthread_join(thread, NULL);
  close(fd);
}

CULPRIT void waits_for_child(pid_t child) { waitpid(child, NULL, 0); }
static void child_process(uint64_t us) {
  pid_t child = fork();
  if (child == 0) {
    sleep_us(us);
    _exit(0);
  }
  waits_for_child(child);
}

/* ---- locks -------------------------------------------------------------------------------- */

static void *holds_mutex_asleep(void *context) {
  helper_t *h = context;
  pthread_mutex_lock(h->first);
  pthread_barrier_wait(h->barrier);
  sleep_us(h->us);
  pthread_mutex_unlock(h->first);
  return NULL;
}
CULPRIT void owner_burns(uint64_t us) {
  uint64_t end = clock_us(CLOCK_MONOTONIC) + us;
  while (clock_us(CLOCK_MONOTONIC) < end)
    sink += sink * 3;
}
static void *holds_mutex_running(void *context) {
  helper_t *h = context;
  pthread_mutex_lock(h->first);
  pthread_barrier_wait(h->barrier);
  owner_burns(h->us);
  pthread_mutex_unlock(h->first);
  return NULL;
}
CULPRIT void takes_mutex(pthread_mutex_t *mutex) {
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
}
static void held_by(uint64_t us, void *(*owner)(void *)) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 2);
  helper_t h = {.us = us, .first = &mutex, .barrier = &barrier};
  pthread_t thread = start(owner, &h);
  pthread_barrier_wait(&barrier);
  takes_mutex(&mutex);
  pthread_join(thread, NULL);
}
static void mutex_asleep(uint64_t us) { held_by(us, holds_mutex_asleep); }
static void mutex_running(uint64_t us) { held_by(us, holds_mutex_running); }

static void *posts_later(void *context) {
  helper_t *h = context;
  sleep_us(h->us);
  sem_post(h->semaphore);
  return NULL;
}
CULPRIT void waits_semaphore(sem_t *semaphore) { sem_wait(semaphore); }
static void semaphore(uint64_t us) {
  sem_t s;
  sem_init(&s, 0, 0);
  helper_t h = {.us = us, .semaphore = &s};
  pthread_t thread = start(posts_later, &h);
  waits_semaphore(&s);
  pthread_join(thread, NULL);
}

static void *sleeps_and_ends(void *context) {
  sleep_us(((helper_t *)context)->us);
  return NULL;
}
CULPRIT void joins(pthread_t thread) { pthread_join(thread, NULL); }
static void joining(uint64_t us) {
  helper_t h = {.us = us};
  joins(start(sleeps_and_ends, &h));
}

CULPRIT void waits_condition(uint64_t us) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t ns = (uint64_t)t.tv_nsec + us * 1000;
  t.tv_sec += (time_t)(ns / 1000000000u);
  t.tv_nsec = (long)(ns % 1000000000u);
  pthread_mutex_lock(&mutex);
  while (pthread_cond_timedwait(&condition, &mutex, &t) == 0) {
  }
  pthread_mutex_unlock(&mutex);
}

static void *holds_rwlock(void *context) {
  helper_t *h = context;
  pthread_rwlock_wrlock(h->rwlock);
  pthread_barrier_wait(h->barrier);
  sleep_us(h->us);
  pthread_rwlock_unlock(h->rwlock);
  return NULL;
}
CULPRIT void reads_rwlock(pthread_rwlock_t *lock) {
  pthread_rwlock_rdlock(lock);
  pthread_rwlock_unlock(lock);
}
static void rwlock(uint64_t us) {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, 2);
  helper_t h = {.us = us, .rwlock = &lock, .barrier = &barrier};
  pthread_t thread = start(holds_rwlock, &h);
  pthread_barrier_wait(&barrier);
  reads_rwlock(&lock);
  pthread_join(thread, NULL);
}

/* Its caller is in a register alone. */
static uint32_t leaf_word;
static void *ends_leaf(void *context) {
  sleep_us(((helper_t *)context)->us);
  __atomic_store_n(&leaf_word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &leaf_word, FUTEX_WAKE, 1);
  return NULL;
}
CULPRIT void waits_in_leaf(void) {
  while (!__atomic_load_n(&leaf_word, __ATOMIC_SEQ_CST))
    if (leaf_call(SYS_futex, (long)&leaf_word, FUTEX_WAIT, 0, 0) == -EINTR) abort();
}
static void leaf(uint64_t us) {
  helper_t h = {.us = us};
  leaf_word = 0;
  pthread_t thread = start(ends_leaf, &h);
  waits_in_leaf();
  pthread_join(thread, NULL);
}

/* ---- deadlocks: the last kind of a run ---------------------------------------------------- */

static void print_truth(const char *kind, const char *culprits, const char *causes, uint64_t began,
                        uint64_t took, uint64_t starved) {
  printf("{\"kind\":\"%s\",\"culprits\":\"%s\",\"causes\":\"%s\",\"began_us\":%llu,"
         "\"took_us\":%llu,\"starved_us\":%llu}\n",
         kind, culprits, causes, (unsigned long long)began, (unsigned long long)took,
         (unsigned long long)starved);
  fflush(stdout);
}

static uint64_t deadlock_began;
static const char *deadlock_kind;

static void *ends_the_process(void *context) {
  sleep_us(((helper_t *)context)->us);
  print_truth(deadlock_kind, "takes_second", "deadlock", deadlock_began,
              clock_us(CLOCK_MONOTONIC) - deadlock_began, 0);
  _exit(0);
}

CULPRIT void takes_second(pthread_mutex_t *second) { pthread_mutex_lock(second); }
static void *takes_two(void *context) {
  helper_t *h = context;
  pthread_mutex_lock(h->first);
  pthread_barrier_wait(h->barrier);
  takes_second(h->second);
  return NULL;
}
static void deadlock_of(uint64_t us, unsigned threads) {
  static pthread_mutex_t mutexes[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                       PTHREAD_MUTEX_INITIALIZER};
  static helper_t helpers[3], ender;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, threads);
  deadlock_began = clock_us(CLOCK_MONOTONIC);
  ender.us = us + 300000;
  (void)start(ends_the_process, &ender);
  for (unsigned i = 0; i < threads; i++) {
    helpers[i] = (helper_t){
        .first = &mutexes[i], .second = &mutexes[(i + 1) % threads], .barrier = &barrier};
    if (i) (void)start(takes_two, &helpers[i]);
  }
  takes_two(&helpers[0]);
}
static void deadlock_two(uint64_t us) { deadlock_of(us, 2); }
static void deadlock_three(uint64_t us) { deadlock_of(us, 3); }

/* ---- the loop ----------------------------------------------------------------------------- */

typedef struct kind {
  const char *name, *culprits, *causes;
  void (*run)(uint64_t us);
} kind_t;

static const kind_t kinds[] = {
    {"cpu", "hot_loop", "cpu", hot_loop},
    {"nested", "deep_culprit", "cpu", deep_a},
    {"alternating", "alternates", "cpu", alternates},
    {"alternating-unequal", "alternating_major", "cpu", alternate_unequal},
    {"recursion", "recursive", "cpu", recursion},
    {"callback", "slow_comparison", "cpu", sorting},
    {"memcpy", "copies_memory", "cpu", copies_memory},
    {"system-calls", "system_calls", "kernel|cpu", system_calls},
    {"faults-anonymous", "faults_anonymous", "page-faults|kernel|cpu", faults_anonymous},
    {"faults-file", "faults_file", "page-faults|kernel|cpu", faults_file},
    {"late-cpu", "trap_culprit_cpu", "cpu", late_cpu},
    {"late-sleep", "trap_culprit_sleeps|sleep_us", "blocked", late_sleep},
    {"late-then-sleep", "trap_culprit_cpu", "cpu", late_then_sleep},
    {"late-read", "trap_culprit_reads", "blocked", late_read},
    {"sleep", "sleeps|sleep_us", "blocked", sleeps},
    {"naps", "naps", "blocked", naps},
    {"pipe-read", "reads_pipe", "blocked", pipe_read},
    {"pipe-write", "writes_full_pipe", "blocked", pipe_write},
    {"socket", "receives", "blocked", socket_receive},
    {"nested-poll", "polls_client", "blocked", nested_poll},
    {"file-lock", "locks_file", "blocked", file_lock},
    {"child", "waits_for_child", "blocked", child_process},
    {"mutex-asleep", "takes_mutex", "lock", mutex_asleep},
    {"mutex-running", "takes_mutex", "lock", mutex_running},
    {"semaphore", "waits_semaphore", "blocked", semaphore},
    {"join", "joins", "blocked", joining},
    {"condition", "waits_condition", "blocked", waits_condition},
    {"rwlock", "reads_rwlock", "blocked|lock", rwlock},
    {"leaf", "leaf_call", "blocked", leaf},
    {"deadlock-two", "takes_second", "deadlock", deadlock_two},
    {"deadlock-three", "takes_second", "deadlock", deadlock_three},
};

static int queue;

/* Some turns that are short, and end at a random moment of the monitor's beat. */
static void turn_quickly(void) {
  struct epoll_event event;
  for (uint64_t n = draw(4, 9); n; n--) {
    (void)epoll_wait(queue, &event, 1, (int)draw(0, 12));
    for (int i = 0; i < 20000; i++)
      sink += (uint64_t)i;
  }
}

static void stall_as(const kind_t *kind) {
  uint64_t us = threshold_us * draw(140, 300) / 100;
  uint64_t starved = starved_us(), began = clock_us(CLOCK_MONOTONIC);
  deadlock_kind = kind->name;
  kind->run(us);
  uint64_t took = clock_us(CLOCK_MONOTONIC) - began;
  print_truth(kind->name, kind->culprits, kind->causes, began, took, starved_us() - starved);
}

int main(int argc, char **argv) {
  char path[] = "/tmp/sonde-corpus-XXXXXX";
  if (argc == 2 && !strcmp(argv[1], "--kinds")) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
      puts(kinds[i].name);
    return 0;
  }
  if (argc < 4) return 2;
  random_state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
  threshold_us = strtoull(argv[2], NULL, 10) * 1000;
  int lock = mkstemp(path);
  lock_path = path;
  queue = epoll_create1(0);
  for (int a = 3; a < argc; a++)
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
      if (!strcmp(argv[a], kinds[i].name)) {
        turn_quickly();
        if (!strncmp(kinds[i].name, "deadlock", 8)) unlink(path);
        stall_as(&kinds[i]);
      }
  turn_quickly();
  unlink(path);
  close(lock);
  return 0;
}
