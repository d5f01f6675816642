/* SPDX-License-Identifier: MIT
 *
 * Threads to look at, blocked or running at the end of a known chain of calls. The oracle is
 * glibc's backtrace(), which each thread asks about itself before it blocks: from its caller
 * outward both must say the same return addresses.
 */
#ifndef SONDE_TESTS_SUBJECT_H
#define SONDE_TESTS_SUBJECT_H

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "os/os.h"
#include "skip.h"
#include "sonde/thread.h"

#define NOINLINE __attribute__((noinline, noclone))
#define DEPTH    64

/* ---- threads to look at --------------------------------------------------------------------- */

typedef enum kind {
  SEM,
  EPOLL,
  POLL,
  NANOSLEEP,
  READ,
  COND,
  PAUSE,
  FRAME,
  ALLOCA,
  SPIN,
  KINDS
} kind_t;
static const char *const kind_names[KINDS] = {"sem_wait", "epoll_wait", "poll",  "nanosleep",
                                              "read",     "cond_wait",  "pause", "frame pointer",
                                              "alloca",   "spinning"};

typedef struct subject {
  pthread_t thread;
  kind_t kind;
  pid_t tid;
  atomic_int ready, stop;
  int interrupted; /* calls that returned EINTR */
  sem_t sem;
  int ends[2];
  pthread_mutex_t mutex;
  pthread_cond_t cond;
  bool blocks_sigurg;
  const char *name;
  void *expected[DEPTH]; /* return addresses; where `innermost` returns to is at expected_first */
  int expected_first, expected_count;
  volatile uint64_t spins;
} subject_t;

__attribute__((unused)) static volatile int sink;

static inline void note_eintr(subject_t *s, long result) {
  if (result < 0 && errno == EINTR) s->interrupted++;
}

/* Blocks in a frame whose CFA is counted from the frame register, which nothing further in saves.
 */
NOINLINE static void block_with_alloca(subject_t *s, size_t size) {
  volatile char *room = __builtin_alloca(size);
  room[0] = room[size - 1] = 1;
  syscall(SYS_read, s->ends[0], room, 1);
  sink += room[0];
}

/* As code is built with frame pointers. */
#if defined(__clang__)
#define WITH_FRAME_POINTER
#else
#define WITH_FRAME_POINTER __attribute__((optimize("no-omit-frame-pointer")))
#endif
NOINLINE WITH_FRAME_POINTER static void block_with_frame_pointer(subject_t *s) {
  char c;
  syscall(SYS_read, s->ends[0], &c, 1);
  sink++;
}

/* Code without a sanitizer's checks. With them a frame has no constant size, and words that earlier
 * calls left on the stack may keep the frame register from being proven. */
#define AS_PLAIN_CODE __attribute__((no_sanitize("address", "undefined")))

AS_PLAIN_CODE static inline void block_once(subject_t *s) {
  struct timespec day = {86400, 0};
  struct epoll_event event;
  struct pollfd pfd = {.fd = s->ends[0], .events = POLLIN};
  char c;
  switch (s->kind) {
  case SEM: note_eintr(s, sem_wait(&s->sem)); break;
  case EPOLL: {
    int e = epoll_create1(EPOLL_CLOEXEC);
    event = (struct epoll_event){.events = EPOLLIN};
    epoll_ctl(e, EPOLL_CTL_ADD, s->ends[0], &event);
    s->ready = 1;
    note_eintr(s, epoll_wait(e, &event, 1, -1));
    close(e);
    break;
  }
  case POLL: note_eintr(s, poll(&pfd, 1, -1)); break;
  case NANOSLEEP: note_eintr(s, nanosleep(&day, NULL)); break;
  case READ: note_eintr(s, read(s->ends[0], &c, 1)); break;
  case COND:
    pthread_mutex_lock(&s->mutex);
    while (!s->stop)
      pthread_cond_wait(&s->cond, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    break;
  case PAUSE: pause(); break;
  case FRAME: block_with_frame_pointer(s); break;
  case ALLOCA: block_with_alloca(s, 64 + (size_t)s->tid % 5 * 48); break;
  default:
    while (!s->stop)
      s->spins++;
  }
}

NOINLINE AS_PLAIN_CODE static void innermost(subject_t *s) {
  void *caller = __builtin_extract_return_addr(__builtin_return_address(0));
  s->expected_count = backtrace(s->expected, DEPTH);
  s->expected_first = 0; /* a sanitizer's own backtrace() has frames of its own first */
  while (s->expected[s->expected_first] != caller)
    s->expected_first++;
  s->ready = 1;
  block_once(s);
  sink++;
}

/* A frame whose CFA is counted from the frame register. */
NOINLINE static void with_alloca(subject_t *s, int size) {
  volatile char *room = __builtin_alloca((size_t)size);
  room[0] = room[size - 1] = 1;
  innermost(s);
  sink += room[0];
}

NOINLINE static void nested(subject_t *s, int depth) {
  if (depth == 0)
    with_alloca(s, 100 + (int)(s->tid % 7) * 16);
  else
    nested(s, depth - 1);
  sink++;
}

static inline void *subject_main(void *argument) {
  subject_t *s = argument;
  s->tid = (pid_t)syscall(SYS_gettid);
  if (s->name != NULL) prctl(PR_SET_NAME, s->name);
  if (s->blocks_sigurg) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGURG);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
  }
  nested(s, 12);
  return NULL;
}

static inline void subject_start(subject_t *s, kind_t kind) {
  s->kind = kind;
  sem_init(&s->sem, 0, 0);
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->cond, NULL);
  assert_int_equal(pipe2(s->ends, O_CLOEXEC), 0);
  assert_int_equal(pthread_create(&s->thread, NULL, subject_main, s), 0);
  while (!s->ready)
    usleep(200);
}

/* How long an answer may take on a machine that gives a thread no CPU: what ends a test that hangs
 * is its own time limit. */
#define PATIENCE_NS (UINT64_C(3600) * 1000000000)
static const sonde_thread_options_t patiently = {.timeout_ns = PATIENCE_NS};

static inline bool is_blocked(pid_t tid) {
  sonde_thread_t t;
  return sonde_thread(tid, &t) == 0 && t.state == 'S';
}

/* Until the kernel says that it is blocked. */
static inline void wait_until_blocked(const subject_t *s) {
  while (!is_blocked(s->tid))
    usleep(500);
}

static inline void do_nothing(int signal) { (void)signal; }

/* A thread that has been joined may still have some way to its end in the kernel. */
static inline void wait_until_gone(pid_t tid) {
  while (os_thread_alive(tid))
    usleep(1000);
}

static inline void subject_stop(subject_t *s) {
  s->stop = 1;
  if (s->kind == NANOSLEEP || s->kind == PAUSE) {
    struct sigaction action = {.sa_handler = do_nothing};
    sigaction(SIGUSR2, &action, NULL);
    pthread_kill(s->thread, SIGUSR2);
  }
  sem_post(&s->sem);
  (void)!write(s->ends[1], "x", 1);
  pthread_mutex_lock(&s->mutex);
  pthread_cond_signal(&s->cond);
  pthread_mutex_unlock(&s->mutex);
  pthread_join(s->thread, NULL);
  wait_until_gone(s->tid);
  close(s->ends[0]);
  close(s->ends[1]);
}

/* The stack must end in what the thread itself said, from the innermost function's caller on. */
static inline void check_stack(const subject_t *s, const sonde_capture_t *c) {
  int outer = s->expected_count - s->expected_first;
  if (c->status != SONDE_STACK_COMPLETE || c->count < outer + 1)
    print_error("%s: mark %d reason %d flags %u count %d of %d\n", kind_names[s->kind], c->status,
                c->reason, c->flags, c->count, outer);
  assert_int_equal(c->status, SONDE_STACK_COMPLETE);
  assert_in_range(c->count, outer + 1, DEPTH);
  for (int i = 0; i < outer; i++)
    assert_ptr_equal((void *)c->pcs[c->count - 1 - i], s->expected[s->expected_count - 1 - i]);
}

/* The frame register cannot always be proven, least of all through a sanitizer's wrappers of system
 * calls; then the stack is marked torn, and is not wrong. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif
#if defined(__aarch64__)
/* syscall(2) is a leaf: where it was called from is in x30 alone, which /proc does not tell. */
#define LEAF_HIDES_CALLER true
#else
#define LEAF_HIDES_CALLER false
#endif
static inline bool may_be_broken(const subject_t *s) {
  return s->kind == ALLOCA || IS_SANITIZED || (LEAF_HIDES_CALLER && s->kind == FRAME);
}
static inline bool is_reported_broken(const subject_t *s, const sonde_capture_t *c) {
  return may_be_broken(s) && c->status == SONDE_STACK_BROKEN && c->reason == SONDE_ENOTFOUND &&
         c->count > 0 && c->count < s->expected_count;
}

static inline bool can_read_in_place(void) {
  os_blocked_t at;
  return os_thread_blocked(-1, os_tid(), &at) != -ENOSYS;
}

#endif
