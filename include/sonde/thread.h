/* SPDX-License-Identifier: MIT
 *
 * The threads of this process, and their stacks.
 *
 * A blocked thread is read in place: it is neither stopped nor signaled, and its system call is not
 * interrupted. A running thread gets SIGURG with a cookie and captures its own stack in the
 * handler; the default action of SIGURG is to ignore it. A thread that blocks SIGURG or waits for
 * signals is never signaled.
 *
 * By default a blocked thread is signaled only if two conditions hold. Unwinding needs a register
 * that the kernel does not report: on aarch64 the link register, in a leaf. The kernel restarts the
 * interrupted call. Such calls are flock(2), waits for a child, and, without a time limit,
 * futex(2), read, write, accept, send and recv. If the kernel does not restart the call, or with
 * SONDE_NO_SIGNAL, the stack is SONDE_STACK_BROKEN (SONDE_ENOTFOUND).
 *
 * The first request installs the handler, which stays for the life of the process and passes every
 * other SIGURG to the program's handler.
 *
 * Any thread may call these functions, also in a signal handler, inside malloc and after fork. They
 * open files of /proc and close them before they return. If no descriptor is free or /proc is not
 * mounted, blocked threads cannot be read and are reported as SONDE_EUNSUPPORTED.
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

/* A thread as the kernel reports it at one time. */
typedef struct sonde_thread {
  pid_t tid;
  /* Terminated by a 0. */
  char name[16];
  /* As in proc(5): R running, S sleeping, D in an uninterruptible wait, T or t stopped, Z or X
   * ended; 0: unknown. */
  char state;
} sonde_thread_t;

/* Lists the threads of this process, including the calling one, in the kernel's order. Writes at
 * most MAX of them and returns the total number, which may be greater than MAX; or
 * SONDE_EUNSUPPORTED without /proc, SONDE_EINVAL. A thread that ends meanwhile may be missing. */
SONDE_API int sonde_threads(sonde_thread_t *threads, int max);

/* Gets the name and state of one thread. Returns 0, SONDE_ENOTHREAD, SONDE_EUNSUPPORTED or
 * SONDE_EINVAL. */
SONDE_API int sonde_thread(pid_t tid, sonde_thread_t *thread);

/* Returns the id of the thread that main runs on. */
SONDE_API pid_t sonde_main_thread(void);

/* Returns the id of the thread with handle THREAD; SONDE_ENOTHREAD if that thread has ended;
 * SONDE_EUNSUPPORTED if this C library stores the id at an unknown place. Each call checks that
 * place with the calling thread's own handle. */
SONDE_API pid_t sonde_thread_of_pthread(pthread_t thread);

/* Returns the id of the thread of this process with the Mach port PORT (mach_thread_self,
 * pthread_mach_thread_np, task_threads), whose rights stay as they are; SONDE_ENOTHREAD if PORT is
 * not such a port; SONDE_EUNSUPPORTED except on Apple's systems. */
SONDE_API pid_t sonde_thread_of_mach_port(uint32_t port);

/* Returns the id of the thread that THREAD, an NSThread or an object of a subclass, stands for.
 * SONDE_ENOTHREAD if it has not started or has ended; SONDE_EINVAL if THREAD is NULL or another
 * object; SONDE_EUNSUPPORTED except on Apple's systems, if sonde was built with
 * -DSONDE_APPLE_PRIVATE=OFF, and if Foundation keeps the thread at an unknown place. Foundation has
 * no public function for this, so two private variables are read. Any thread, not in a signal
 * handler; the object must live until the function returns. */
SONDE_API pid_t sonde_thread_of_nsthread(const void *thread);

/* Finds the threads named NAME (as set by pthread_setname_np or prctl: its first 15 bytes). Writes
 * at most MAX ids and returns the total number, which may be 0; or SONDE_EUNSUPPORTED,
 * SONDE_EINVAL. */
SONDE_API int sonde_threads_named(const char *name, pid_t *tids, int max);

/* Options of a capture; a set of bits. */

/* Send no signal: a running thread is unavailable with SONDE_ERUNNING. */
#define SONDE_NO_SIGNAL 1u
/* Signal blocked threads too, instead of reading them in place. Calls such as epoll_wait then
 * return EINTR to the program. */
#define SONDE_SIGNAL_BLOCKED 2u
/* sonde_capture_all leaves out names and states, which take longer than the stacks. */
#define SONDE_NO_THREAD_NAMES 4u

typedef struct sonde_thread_options {
  unsigned flags;
  /* Limit of the whole call's wait for signaled threads; 0: one second. */
  uint64_t timeout_ns;
} sonde_thread_options_t;

/* Writes the stack of thread TID of this process, at most MAX entries. TID may be the calling
 * thread. Entry 0 of another thread is the pc at which it will continue. Returns the count, or
 *   SONDE_ENOTHREAD          the thread has ended
 *   SONDE_ERUNNING           it is running and could not be captured
 *   SONDE_EBLOCKED           it blocks or waits for SIGURG
 *   SONDE_ETIMEDOUT          it did not handle the signal within one second
 *   SONDE_EUNINTERRUPTIBLE   it is stopped, or in a wait that no signal ends, and is unreadable
 *   SONDE_EUNSUPPORTED, SONDE_ENOMEM, SONDE_EFULL, SONDE_EPERM, SONDE_EINVAL. */
SONDE_API int sonde_stack_of_thread(pid_t tid, uintptr_t *pcs, int max);

/* As sonde_stack_of_thread, with the status. CAPTURE specifies where to write the stack and how
 * many frames to leave out; its ucontext, pc, sp and fp must be 0. OPTIONS may be NULL. Returns the
 * count or one of the errors above, which is then also in CAPTURE->reason. */
SONDE_API int sonde_capture_thread(pid_t tid, sonde_capture_t *capture,
                                   const sonde_thread_options_t *options);

/* One thread of sonde_capture_all. */
typedef struct sonde_thread_stack {
  sonde_thread_t thread;
  /* `pcs` points into sonde_all_t.pcs; count, status, reason and flags are set. */
  sonde_capture_t stack;
} sonde_thread_stack_t;

typedef struct sonde_all {
  /* In: memory of the caller for MAX threads. */
  sonde_thread_stack_t *threads;
  /* In: capacity of THREADS; > 0. */
  int max;
  /* In: memory of the caller for MAX times DEPTH program counters. */
  uintptr_t *pcs;
  /* In: frames for each thread; > 0. */
  int depth;
  /* In. */
  sonde_thread_options_t options;
  /* Out: threads written. */
  int count;
  /* Out: threads of the process, which may be more than MAX. */
  int total;
} sonde_all_t;

/* Captures the stack of every thread, including the calling one. The stacks are not simultaneous:
 * each was captured at some time during the call. Returns the number of threads written, each with
 * its own status and reason, or SONDE_EUNSUPPORTED, SONDE_ENOMEM, SONDE_EINVAL. */
SONDE_API int sonde_capture_all(sonde_all_t *all);

#ifdef __cplusplus
}
#endif
#endif
