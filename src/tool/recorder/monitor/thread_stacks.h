/* SPDX-License-Identifier: MIT
 *
 * The stack of a thread of the program, and of the threads that it waits for.
 *
 * The stack of a blocked thread is read without a stop or a signal. This needs the right to read
 * the program's memory, which a parent has unless the program changed its user or Yama's scope is 2
 * or 3. A running thread gets a signal and captures its own stack, which needs only the right to
 * signal it. Its response is collected at a later poll.
 */
#ifndef SONDE_RECORDER_MONITOR_THREAD_STACKS_H
#define SONDE_RECORDER_MONITOR_THREAD_STACKS_H

#include "recorder/monitor/writer.h"

typedef struct thread_stacks {
  recording_t *recording;
  monitor_writer_t *writer;
  pid_t pid;
  /* NULL until needed */
  target_t *target;
  uint64_t opened_ns;
  /* of the program that the target executes */
  uint32_t exec_index;
  /* reads that failed for lack of rights */
  uint32_t denied;
  /* a thread with ticks that are further apart does not wait for one to serve a request */
  uint64_t ticks_max_ns;
  /* the thread of each request; 0: unused */
  pid_t requested[SHM_STACK_REQUESTS];
} thread_stacks_t;

/* The program, for reading its threads; its list of images is at most two seconds old, or 2^pace
 * times as much (record/shm.h). NULL if its memory may not be read. */
target_t *thread_stacks_target(thread_stacks_t *s);
/* The same for what its threads wait for alone: its list of images may be of any age. */
target_t *thread_stacks_threads(thread_stacks_t *s);
/* Discards that list. */
void thread_stacks_close(thread_stacks_t *s);
/* Reads it again; keeps it if the program has ended. False if it could not be read. */
bool thread_stacks_renew(thread_stacks_t *s);

#define WAIT_PATH_MAX 192

/* A blocked thread. */
typedef struct blocked_thread {
  /* 0: unreadable */
  uint32_t stack;
  /* the owner of the mutex that it waits for; 0: unknown or not a mutex */
  pid_t owner;
  bool is_mutex;
  /* of the lock */
  uint64_t address;
  /* the file or socket that it waits for, or "" */
  char what[WAIT_PATH_MAX];
} blocked_thread_t;

/* Reads the stack of TID, which does not run. False if it cannot be read. */
bool thread_stacks_blocked(thread_stacks_t *s, pid_t tid, blocked_thread_t *out);

/* The chain of lock owners that starts with TID. Returns the count of links. */
#define STALL_LINKS_MAX 16
typedef struct lock_link {
  pid_t waiter, owner;
  uint64_t address;
  /* 0: unreadable, or the owner runs */
  uint32_t owner_stack;
  char owner_state;
  bool in_cycle;
} lock_link_t;
int thread_stacks_locks(thread_stacks_t *s, pid_t tid, lock_link_t links[STALL_LINKS_MAX]);

/* Requests the stack of TID, which runs. False if that is not possible now: it blocks the signal,
 * or the program does not handle it. */
bool thread_stacks_request(thread_stacks_t *s, pid_t tid);

/* TID's response, returned once: its stack and when it was captured. False if there is none yet. */
bool thread_stacks_response(thread_stacks_t *s, pid_t tid, uint32_t *stack, uint64_t *time);

/* Cancels the request to TID. */
void thread_stacks_cancel(thread_stacks_t *s, pid_t tid);

#endif
