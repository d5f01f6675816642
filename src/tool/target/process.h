/* SPDX-License-Identifier: MIT
 *
 * A live process: what the files of /proc say of its threads, and its memory through a window.
 */
#ifndef SONDE_TARGET_PROCESS_H
#define SONDE_TARGET_PROCESS_H

#include "target/target.h"

/* Memory of another process. A walk reads the stack word by word, outward: the window holds a copy
 * of the piece around the last read, so that most reads cost no system call. */
#define WINDOW_BYTES (64u << 10)

typedef struct process_memory {
  memory_t memory; /* first */
  pid_t pid;
  int mem_fd; /* /proc/PID/mem, where process_vm_readv is refused; -1 until needed */
  bool no_readv;
  const maps_t *maps;
  uint8_t *window;
  uint64_t start, size; /* what the window holds */
  bool sealed;          /* answer from the window and from read-only mappings alone… */
  bool missed;          /* …and say here that something else was wanted */
} process_memory_t;

typedef enum activity {
  ACTIVITY_BLOCKED, /* not running: sp, pc, and the system call when it is in one */
  ACTIVITY_RUNNING,
  ACTIVITY_GONE,
  ACTIVITY_DENIED,
} activity_t;

/* What a thread was doing at one moment, and how often it had been put on a CPU before that was
 * asked and after; 0: not told. Two blocked samples that are the same mean that it did not run in
 * between. */
typedef struct sample {
  activity_t activity;
  long number; /* of the system call; -1 when in none */
  uint64_t args[6];
  uint64_t sp, pc;
  uint64_t switches, switches_after;
} sample_t;

/* The files of one thread, open while it is looked at. */
typedef struct thread_files {
  int syscall, schedstat, status;
} thread_files_t;

typedef struct process {
  process_memory_t memory; /* first */
  int task;                /* directory /proc/PID/task */
  bool nested;             /* lives in another pid namespace than we do */
} process_t;

static inline process_t *process_of(target_t *target) { return target->own; }

/* Lists the threads of TARGET by tid. False when the process has ended. */
bool process_list_threads(target_t *target);

bool thread_files_open(const process_t *process, pid_t tid, thread_files_t *files);
void thread_files_close(thread_files_t *files);
void thread_sample(const thread_files_t *files, sample_t *sample);
/* A is the earlier one. */
bool sample_same(const sample_t *a, const sample_t *b);

/* Name and state from /proc/PID/task/TID/stat. False when it is gone. */
bool process_read_stat(const process_t *process, thread_t *thread);

/* The tid that the thread has in its own pid namespace. */
pid_t process_inner_tid(const process_t *process, pid_t tid);

/* Fills the window from ADDRESS outward, to the end of its mapping at most. */
void process_window_load(process_memory_t *memory, uint64_t address);

#endif
