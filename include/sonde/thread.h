/* SPDX-License-Identifier: MIT
 *
 * The threads of this process, and their stacks.
 *
 * A thread that is blocked in a system call is read where it is: it is neither stopped nor
 * signalled, and its call goes on. A running thread is asked by a signal (SIGURG, whose default
 * action is to ignore it, with a cookie); it is never sent to a thread that blocks that signal or
 * waits for signals. A blocked one is asked in one case alone: its stack ends for want of a
 * register that the kernel does not tell (on aarch64 a leaf's caller is in the link register), and
 * the kernel makes its call again after the signal, as it does with flock(2) and with futex(2), a
 * wait for a child or a read, all of them without a time limit: the program sees nothing of it.
 * With SONDE_NO_SIGNAL, or in another call, such a stack is torn (SONDE_ENOTFOUND).
 * The handler is installed at the first question, stays for the life of the
 * process, and hands every other SIGURG on to the handler the program had.
 *
 * Everything here may be called by any thread, in a signal handler, inside malloc and after fork. A
 * file of /proc is open for the moment it is read. Where descriptors have run out or /proc is not
 * mounted, blocked threads cannot be read in place and are reported as SONDE_EUNSUPPORTED.
 */
#ifndef SONDE_THREAD_H
#define SONDE_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "sonde/stack.h"
#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A thread, as the kernel tells it at one moment. */
typedef struct sonde_thread {
  pid_t tid;
  char name[16]; /* ends with a 0 */
  char state; /* as in proc(5): R running, S sleeping, D in an uninterruptible wait, T or t stopped,
                 Z or X ended; 0: not known */
} sonde_thread_t;

/* Lists the threads of this process, the calling one included, in the kernel's order. Writes at
 * most MAX of them and returns how many there are, which may be more; or SONDE_EUNSUPPORTED without
 * a /proc, SONDE_EINVAL. A thread that ends meanwhile is left out. */
SONDE_API int sonde_threads(sonde_thread_t *threads, int max);

/* The name and state of one thread. Returns 0, SONDE_ENOTHREAD, SONDE_EUNSUPPORTED, SONDE_EINVAL.
 */
SONDE_API int sonde_thread(pid_t tid, sonde_thread_t *thread);

/* The id of the thread that main runs on. */
SONDE_API pid_t sonde_main_thread(void);

/* The id of the thread whose handle is THREAD. Returns SONDE_ENOTHREAD when it has ended, and
 * SONDE_EUNSUPPORTED when this C library keeps the id at a place that is not known here; that is
 * verified with the calling thread's own handle each time. */
SONDE_API pid_t sonde_thread_of_pthread(pthread_t thread);

/* The ids of the threads named NAME (as pthread_setname_np or prctl set it: its first 15 bytes).
 * Writes at most MAX and returns how many there are, which may be 0. */
SONDE_API int sonde_threads_named(const char *name, pid_t *tids, int max);

/* How far to go for a stack; a set of bits. */
#define SONDE_NO_SIGNAL 1u /* ask nobody: a running thread is unavailable, SONDE_ERUNNING */
#define SONDE_SIGNAL_BLOCKED                                                                       \
  2u /* ask blocked threads too, instead of reading them in place; calls                           \
        such as epoll_wait then return EINTR to the program */
#define SONDE_NO_THREAD_NAMES                                                                      \
  4u /* sonde_capture_all leaves out names and states, which take longer                           \
        than the stacks */

typedef struct sonde_thread_options {
  unsigned flags;
  uint64_t timeout_ns; /* how long to wait for answers, all in all; 0: one second */
} sonde_thread_options_t;

/* Writes the stack of thread TID of this process, which may be the calling one, at most MAX
 * entries. Entry 0 of another thread is the pc it will go on at. Returns the count, or
 * SONDE_ENOTHREAD: it has ended; SONDE_ERUNNING; SONDE_EBLOCKED: it blocks or waits for the signal;
 * SONDE_ETIMEDOUT: it did not answer; SONDE_EUNINTERRUPTIBLE: it is stopped or in a wait that no
 * signal ends, and could not be read in place; SONDE_EUNSUPPORTED; SONDE_ENOMEM; SONDE_EINVAL. */
SONDE_API int sonde_stack_of_thread(pid_t tid, uintptr_t *pcs, int max);

/* As sonde_stack_of_thread, with the mark. CAPTURE says where the stack goes and how many frames to
 * leave out; its ucontext, pc, sp and fp must be 0. OPTIONS may be NULL. Returns the count, or one
 * of the statuses above, which is also in CAPTURE->reason then. */
SONDE_API int sonde_capture_thread(pid_t tid, sonde_capture_t *capture,
                                   const sonde_thread_options_t *options);

/* One thread of sonde_capture_all. */
typedef struct sonde_thread_stack {
  sonde_thread_t thread;
  sonde_capture_t stack; /* pcs point into sonde_all_t.pcs; count, mark, reason, flags are set */
} sonde_thread_stack_t;

typedef struct sonde_all {
  sonde_thread_stack_t *threads; /* in: memory of the caller for MAX threads */
  int max;                       /* in: > 0 */
  uintptr_t *pcs;                /* in: memory of the caller for MAX times DEPTH program counters */
  int depth;                     /* in: frames for each thread; > 0 */
  sonde_thread_options_t options; /* in */
  int count;                      /* out: threads written */
  int total;                      /* out: threads there were, which may be more than MAX */
} sonde_all_t;

/* The stack of every thread, the calling one included. The stacks are not of one instant: each is
 * of some moment during the call. Returns the count of threads written, each with its own mark and
 * reason, or SONDE_EUNSUPPORTED, SONDE_ENOMEM, SONDE_EINVAL. */
SONDE_API int sonde_capture_all(sonde_all_t *all);

#ifdef __cplusplus
}
#endif
#endif
