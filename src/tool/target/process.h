/* SPDX-License-Identifier: MIT
 *
 * A live process: its threads from /proc, and its memory through a window.
 */
#ifndef SONDE_TARGET_PROCESS_H
#define SONDE_TARGET_PROCESS_H

#include "target/target.h"

/* Memory of another process. A walk reads the stack word by word, outward. The window is a copy of
 * the memory around the last read, so that most reads need no system call. */
#define WINDOW_BYTES (64u << 10)

typedef struct process_memory {
  /* must be first */
  memory_t memory;
  pid_t pid;
  /* /proc/PID/mem, if process_vm_readv is refused; -1: not opened */
  int mem_fd;
  bool no_readv;
  const maps_t *maps;
  uint8_t *window;
  /* of the window */
  uint64_t start, size;
  /* read only from the window, from read-only mappings and from code; `missed` is set if a read
   * needed more */
  bool sealed;
  bool missed;
} process_memory_t;

typedef enum activity {
  /* not running: sp, pc, and the system call if it is in one */
  ACTIVITY_BLOCKED,
  ACTIVITY_RUNNING,
  ACTIVITY_GONE,
  ACTIVITY_DENIED,
} activity_t;

/* What a thread did at one time, and how often it had got a CPU before and after that was read; 0:
 * unknown. If two blocked samples are equal, the thread did not run in between. */
typedef struct sample {
  activity_t activity;
  /* of the system call; -1: none */
  long number;
  uint64_t args[6];
  uint64_t sp, pc;
  uint64_t switches, switches_after;
} sample_t;

/* The open /proc files of one thread. */
typedef struct thread_files {
  int syscall, schedstat, status;
} thread_files_t;

typedef struct process {
  /* must be first */
  process_memory_t memory;
  /* directory /proc/PID/task */
  int task;
  /* it is in another pid namespace than the command */
  bool nested;
} process_t;

static inline process_t *process_of(target_t *target) { return target->own; }

/* Reads the memory map of PID, of which READER is a thread (target/access.h). False with PROBLEM.
 * The caller frees MAPS with maps_free in any case. */
bool process_read_maps(pid_t pid, pid_t reader, maps_t *maps, problem_t *problem);

/* Says why process PID could not be read: it has ended, or memory ran out. */
void process_unread(pid_t pid, problem_t *problem);

/* Lists the threads of TARGET, sorted by tid. False if the process has ended. */
bool process_list_threads(target_t *target);

bool thread_files_open(const process_t *process, pid_t tid, thread_files_t *files);
void thread_files_close(thread_files_t *files);
void thread_sample(const thread_files_t *files, sample_t *sample);
/* Whether the thread did not run between A and the later sample B. */
bool sample_same(const sample_t *a, const sample_t *b);

/* Name and state from /proc/PID/task/TID/stat. False if the thread has ended. */
bool process_read_stat(const process_t *process, thread_t *thread);

/* The tid of the thread in its own pid namespace. */
pid_t process_inner_tid(const process_t *process, pid_t tid);

/* Reads memory without the window. False unless all SIZE bytes were read. */
bool process_read(process_memory_t *memory, uint64_t address, void *out, size_t size);

/* Fills the window from ADDRESS up, at most to the end of its mapping. */
void process_window_load(process_memory_t *memory, uint64_t address);

#endif
