/* SPDX-License-Identifier: MIT
 *
 * A program to attach to. Its threads wait, read and compute, and count what they must never see.
 */
#ifndef SONDE_TESTS_ATTACH_PROGRAM_H
#define SONDE_TESTS_ATTACH_PROGRAM_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "attach/attach.h"

#define TOY SONDE_FIXTURES "/libattach_toy.so"

enum { THREADS = 6, LIMIT_MS = 20000, TURNS = 8, INTERRUPTED = -1 };

typedef struct program {
  pid_t pid;
  int orders, answers, threads;
  int *surprises; /* shared: the number of calls with an unexpected result, and the last one; from
                     TURNS on: how often each thread has waited for time */
} program_t;

static int *surprises;
static int idle[2];

/* Counts a call that ended as it must not, and keeps what it was. */
static inline void note_surprise(int which, long result) {
  surprises[1] = which, surprises[2] = (int)result, surprises[3] = errno;
  __atomic_fetch_add(surprises, 1, __ATOMIC_RELEASE);
}

static inline void *wait_for_time(void *turns) {
  for (long result; true; __atomic_fetch_add((int *)turns, 1, __ATOMIC_RELAXED))
    if ((result = poll(NULL, 0, 5)) != 0) note_surprise('p', result);
  return NULL;
}

static inline void *wait_for_input(void *unused) {
  char byte;
  (void)unused;
  note_surprise('r', read(idle[0], &byte, 1));
  return NULL;
}

static inline void *compute(void *unused) {
  volatile double value = 1;
  (void)unused;
  while (true) {
    for (int i = 0; i < 100000; i++)
      value = value * 3 / 3;
    if (value != 1) note_surprise('c', 0);
    usleep(100);
  }
  return NULL;
}

/* Fills vector registers and one that calls destroy, runs for a while, and compares. */
#if defined(__x86_64__)
#define KEEPS(NAME, BYTES, MOVE, REGISTER)                                                         \
  static inline bool NAME(void) {                                                                  \
    typedef unsigned char wide_t __attribute__((vector_size(BYTES), aligned(BYTES)));              \
    wide_t in, out[2];                                                                             \
    for (int i = 0; i < BYTES; i++)                                                                \
      in[i] = (unsigned char)(i * 7 + 1);                                                          \
    unsigned long count = 200000, other = 0x1234567890abcdefu;                                     \
    __asm__ volatile(                                                                              \
        MOVE " %[in], %%" REGISTER "3\n " MOVE " %[in], %%" REGISTER "15\n"                        \
             "mov %[other], %%r11\n"                                                               \
             "1: dec %[count]\n jnz 1b\n" MOVE " %%" REGISTER "3, %[low]\n " MOVE " %%" REGISTER   \
             "15, %[high]\n mov %%r11, %[other]\n"                                                 \
        : [count] "+r"(count), [other] "+r"(other), [low] "=m"(out[0]), [high] "=m"(out[1])        \
        : [in] "m"(in)                                                                             \
        : "xmm3", "xmm15", "r11", "cc");                                                           \
    return other == 0x1234567890abcdefu && memcmp(&in, &out[0], BYTES) == 0 &&                     \
           memcmp(&in, &out[1], BYTES) == 0;                                                       \
  }
KEEPS(are_narrow_kept, 16, "movdqa", "xmm")
__attribute__((target("avx2"))) KEEPS(are_wide_kept, 32, "vmovdqa", "ymm")

    static inline bool are_registers_kept(void) {
  return __builtin_cpu_supports("avx2") ? are_wide_kept() : are_narrow_kept();
}
#else
static inline bool are_registers_kept(void) {
  typedef unsigned char wide_t __attribute__((vector_size(16), aligned(16)));
  wide_t in, out[2];
  for (int i = 0; i < 16; i++)
    in[i] = (unsigned char)(i * 7 + 1);
  unsigned long count = 200000, other = 0x1234567890abcdefu;
  __asm__ volatile(
      "ldr q3, %[in]\n ldr q31, %[in]\n mov x11, %[other]\n"
      "1: subs %[count], %[count], #1\n b.ne 1b\n"
      "str q3, %[low]\n str q31, %[high]\n mov %[other], x11\n"
      : [count] "+r"(count), [other] "+r"(other), [low] "=Q"(out[0]), [high] "=Q"(out[1])
      : [in] "Q"(in)
      : "v3", "v31", "x11", "cc");
  return other == 0x1234567890abcdefu && memcmp(&in, &out[0], 16) == 0 &&
         memcmp(&in, &out[1], 16) == 0;
}
#endif

static int handler_orders, handler_answers;

static inline void on_interrupt(int signal_number) {
  char byte;
  (void)signal_number;
  (void)!write(handler_answers, "h", 1);
  (void)!read(handler_orders, &byte, 1);
}

/* Keeps the address that it reads on its stack while a handler waits on another stack. */
static inline void be_interrupted(int orders, int answers) {
  static char other_stack[65536];
  volatile uint64_t kept = 0;
  stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_ONSTACK};
  handler_orders = orders;
  handler_answers = answers;
  sigaltstack(&stack, NULL);
  sigaction(SIGUSR1, &action, NULL);
  (void)!read(orders, (void *)(uintptr_t)&kept, sizeof kept);
  raise(SIGUSR1);
  kept = 0;
  (void)!write(answers, "d", 1);
}

/* THREADS 0: the only thread never waits. INTERRUPTED: it is in a handler for a while. */
static inline _Noreturn void be_program(int orders, int answers, int threads) {
  static void *(*const work[])(void *) = {wait_for_time, wait_for_input, compute};
  pthread_t thread;
  char byte;
  ssize_t n;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < threads; i++)
    pthread_create(&thread, NULL, work[i % 3], &surprises[TURNS + i]);
  if (!threads) fcntl(orders, F_SETFL, O_NONBLOCK);
  (void)!write(answers, "r", 1);
  if (threads == INTERRUPTED) be_interrupted(orders, answers);
  while ((n = read(orders, &byte, 1)) == 1 || (n < 0 && errno == EAGAIN)) {
    if (n == 1) (void)!write(answers, &byte, 1);
    if (n < 0 && !are_registers_kept()) note_surprise('v', 0);
  }
  _exit(0);
}

static inline program_t start(int threads) {
  int orders[2], answers[2];
  program_t p = {.surprises =
                     mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0),
                 .threads = threads};
  char byte;
  assert_true(pipe(orders) == 0 && pipe(answers) == 0 && pipe(idle) == 0);
  surprises = p.surprises;
  p.pid = fork();
  if (p.pid == 0) {
    close(orders[1]);
    be_program(orders[0], answers[1], threads);
  }
  close(orders[0]);
  close(answers[1]);
  p.orders = orders[1];
  p.answers = answers[0];
  assert_int_equal(read(p.answers, &byte, 1), 1);
  return p;
}

/* Until each thread that waits for time has begun to wait again. */
static inline void wait_for_turns(const program_t *p) {
  for (int i = 0; i < p->threads; i += 3) {
    int first = __atomic_load_n(&p->surprises[TURNS + i], __ATOMIC_RELAXED);
    while (__atomic_load_n(&p->surprises[TURNS + i], __ATOMIC_RELAXED) - first < 2)
      usleep(1000);
  }
}

/* The program still answers, saw nothing, and ends as it should. */
static inline void finish(program_t *p) {
  char byte = 0;
  int status;
  assert_int_equal(write(p->orders, "x", 1), 1);
  assert_int_equal(read(p->answers, &byte, 1), 1);
  assert_int_equal(byte, 'x');
  assert_int_equal(*p->surprises, 0);
  close(p->orders);
  assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
  assert_int_equal(status, 0);
  close(p->answers);
  close(idle[0]);
  close(idle[1]);
  munmap(p->surprises, 4096);
}

static inline attach_t *open_program(const program_t *p) {
  problem_t problem = {""};
  attach_t *attach = attach_open(p->pid, &problem);
  if (!attach) fail_msg("%s", problem.text);
  return attach;
}

#define ASSERT_WORKS(call)                                                                         \
  do {                                                                                             \
    problem_t problem = {""};                                                                      \
    if (!(call)) fail_msg("%s", problem.text);                                                     \
  } while (0)

#define ASSERT_FAILS(call, text_part)                                                              \
  do {                                                                                             \
    problem_t problem = {""};                                                                      \
    assert_false(call);                                                                            \
    if (!strstr(problem.text, text_part)) fail_msg("%s", problem.text);                            \
  } while (0)

#endif
