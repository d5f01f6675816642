/* SPDX-License-Identifier: MIT
 *
 * Swift's async frames, as clang makes them for macOS: the thread's stack through them, the stack
 * of contexts instead, from the own thread and from another one.
 */
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "sonde/thread.h"

/* libpthread's, for the keys that the system's libraries share: Swift's runtime has key 103. */
extern int pthread_key_init_np(int key, void (*destructor)(void *));
#define SWIFT_TASK 103

#define NOINLINE __attribute__((noinline))
#define ASYNC    __attribute__((swiftasynccall, noinline))
#define CONTEXT  __attribute__((swift_async_context))

typedef struct context {
  struct context *parent;
  void (*resume)(void);
  void (*call_back)(void);
} context_t;

NOINLINE static void resumes_first(void) { __asm__ volatile(""); }
NOINLINE static void resumes_second(void) { __asm__ volatile("nop"); }

enum { OWN_TASK = 4711, OTHER_TASK = 815 };
static void wait_for_byte(void);

ASYNC static void async_inner(CONTEXT context_t *context) {
  volatile int local[4] = {1};
  context->call_back();
  context->call_back = 0;
  local[1] = local[0];
}

/* An ordinary function, so that async frames are not neighbours. */
NOINLINE static void between(context_t *context) {
  volatile int local[6] = {1};
  async_inner(context);
  local[1] = local[0];
}

ASYNC static void async_outer(CONTEXT context_t *context) {
  volatile int local[2] = {1};
  between(context->parent);
  context->call_back = 0;
  local[1] = local[0];
}

/* A task, whose id is 4 pointers and 4 bytes from its start. */
typedef struct task {
  void *fields[4];
  uint32_t flags, id;
} task_t;

NOINLINE static void run_async(void (*call_back)(void)) {
  task_t task = {.id = call_back == wait_for_byte ? OTHER_TASK : OWN_TASK};
  (void)pthread_setspecific(SWIFT_TASK, &task);
  context_t second = {NULL, NULL, NULL};
  context_t first = {&second, resumes_second, NULL};
  context_t inner = {&first, resumes_first, call_back};
  context_t outer = {&inner, resumes_first, NULL};
  async_outer(&outer);
  (void)pthread_setspecific(SWIFT_TASK, NULL);
}

static uintptr_t pcs[64];
static sonde_capture_t capture;

NOINLINE static void capture_self(void) {
  capture.count = sonde_capture(&capture);
  __asm__ volatile("");
}

static int ends[2];
static volatile bool waits;

NOINLINE static void wait_for_byte(void) {
  char byte;
  waits = true;
  (void)read(ends[0], &byte, 1);
  __asm__ volatile("");
}

static void *wait_in_async(void *argument) {
  run_async(wait_for_byte);
  return argument;
}

static bool sleeps(pid_t tid) {
  sonde_thread_t about;
  return waits && sonde_thread(tid, &about) == 0 && about.state == 'S';
}

/* Both ways, of what TAKE captures, whose innermost functions are FIRST (up to a NULL). */
static void check_both(void (*take)(void), uint64_t task, const char *const *whole,
                       const char *const *followed) {
  bool noticed[3], complete[3];
  int counts[3];
  uint64_t tasks[3];
  for (int how = SONDE_ASYNC_IGNORE; how <= SONDE_ASYNC_FOLLOW; how++) {
    capture = (sonde_capture_t){.pcs = pcs, .max = 64, .async = (sonde_async_t)how};
    take();
    noticed[how] = capture.flags & SONDE_FLAG_ASYNC;
    complete[how] = capture.status == SONDE_STACK_COMPLETE;
    counts[how] = capture.count;
    tasks[how] = capture.async_task;
    bool is_followed = how == SONDE_ASYNC_FOLLOW;
    check(has_chain(pcs, capture.count, is_followed ? followed : whole),
          is_followed ? "the stack of contexts" : "the thread's stack through async frames");
  }
  check(complete[0] && complete[1] && complete[2], "each is complete");
  check(!noticed[SONDE_ASYNC_IGNORE] && noticed[SONDE_ASYNC_DETECT] && noticed[SONDE_ASYNC_FOLLOW],
        "that there are async frames is told to who wants to know");
  check(!tasks[SONDE_ASYNC_IGNORE] && tasks[SONDE_ASYNC_DETECT] == task &&
            tasks[SONDE_ASYNC_FOLLOW] == task,
        "and which task runs");
  check(counts[SONDE_ASYNC_IGNORE] == counts[SONDE_ASYNC_DETECT], "noticing changes no stack");
  check(pcs[capture.count - 1] == (uintptr_t)resumes_second + 1,
        "it ends with the last resumption");
}

static void take_own(void) { run_async(capture_self); }

static pid_t waiting;
static void take_waiting(void) { (void)sonde_capture_thread(waiting, &capture, NULL); }

void check_async(void) {
  static const char *const own[] = {"capture_self", "async_inner", "between",
                                    "async_outer",  "run_async",   NULL};
  static const char *const own_followed[] = {"capture_self", "async_inner", "resumes_first",
                                             "resumes_second", NULL};
  static const char *const other[] = {"read",        "wait_for_byte", "async_inner",   "between",
                                      "async_outer", "run_async",     "wait_in_async", NULL};
  static const char *const other_followed[] = {"read",          "wait_for_byte",  "async_inner",
                                               "resumes_first", "resumes_second", NULL};
  (void)pthread_key_init_np(SWIFT_TASK, NULL);
  check_both(take_own, OWN_TASK, own, own_followed);
  pthread_t thread;
  void *result;
  if (pipe(ends) != 0) check(false, "pipe");
  pthread_create(&thread, NULL, wait_in_async, NULL);
  waiting = sonde_thread_of_pthread(thread);
  while (!sleeps(waiting))
    usleep(1000);
  check_both(take_waiting, OTHER_TASK, other, other_followed);
  (void)write(ends[1], "x", 1);
  pthread_join(thread, &result);
}
