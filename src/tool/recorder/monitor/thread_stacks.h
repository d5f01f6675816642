/* SPDX-License-Identifier: MIT
 *
 * The stacks of a stalled thread, and of those it waits for.
 *
 * A blocked thread is read where it is, from outside, without a stop or a signal. That takes the
 * right to read its memory, which a parent has unless the program has changed its user or the
 * system forbids it altogether (Yama 2 and 3). A running thread is requested by a signal and
 * captures its own stack; that takes the right to signal it, no more. The answer is collected at a
 * later look.
 */
#ifndef SONDE_RECORDER_MONITOR_STALL_STACKS_H
#define SONDE_RECORDER_MONITOR_STALL_STACKS_H

#include "recorder/monitor/writer.h"

typedef struct thread_stacks {
  recording_t *recording;
  monitor_writer_t *writer;
  pid_t pid;
  target_t *target; /* NULL until it is needed */
  uint64_t opened_ns;
  uint32_t denied;                     /* reads that were refused */
  pid_t requested[SHM_STACK_REQUESTS]; /* whose question each is; 0: nobody's */
} thread_stacks_t;

/* The program as it is now: its threads are to be read again, its images were listed at most two
 * seconds ago. NULL when it may not be looked into. */
target_t *thread_stacks_target(thread_stacks_t *s);
void thread_stacks_close(thread_stacks_t *s);

#define WAIT_PATH_MAX 192

/* A blocked thread. */
typedef struct blocked_thread {
  uint32_t stack; /* 0: it could not be read */
  pid_t owner;    /* who holds the mutex it waits for; 0: unknown, or it waits for something else */
  bool is_mutex;
  uint64_t address;         /* of the lock */
  char what[WAIT_PATH_MAX]; /* the file or socket, or nothing */
} blocked_thread_t;

/* Reads TID, which is off the CPU. False when it was not. */
bool thread_stacks_blocked(thread_stacks_t *s, pid_t tid, blocked_thread_t *out);

/* The chain of owners from TID on: who waits for whom. Returns the count of links. */
#define STALL_LINKS_MAX 16
typedef struct lock_link {
  pid_t waiter, owner;
  uint64_t address;
  uint32_t owner_stack; /* 0: it could not be read, or the owner runs */
  char owner_state;
  bool in_cycle;
} lock_link_t;
int thread_stacks_locks(thread_stacks_t *s, pid_t tid, lock_link_t links[STALL_LINKS_MAX]);

/* Asks TID, which runs. False when it cannot be requested now. */
bool thread_stacks_request(thread_stacks_t *s, pid_t tid);

/* TID's answer, once: its stack and the time of it. False when there is none so far. */
bool thread_stacks_response(thread_stacks_t *s, pid_t tid, uint32_t *stack, uint64_t *time);

/* The question to TID is of no interest any more. */
void thread_stacks_cancel(thread_stacks_t *s, pid_t tid);

#endif
