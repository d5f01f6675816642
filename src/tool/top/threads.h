/* SPDX-License-Identifier: MIT
 *
 * The threads of the program: what the last two readings of the kernel's counters say about each.
 * Pure: the time is a parameter, and nothing is read.
 */
#ifndef SONDE_TOP_THREADS_H
#define SONDE_TOP_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TOP_CALL_MAX = 160 };

typedef enum top_state {
  TOP_RUNNING,  /* on a CPU */
  TOP_RUNNABLE, /* ready, but it got less CPU time than it waited for */
  TOP_WAITING,  /* in a system call */
  TOP_STOPPED,
  TOP_ENDED,
} top_state_t;

/* Counters of one thread, as in /proc/PID/task/TID. */
typedef struct top_reading {
  pid_t tid;
  char state; /* a letter of proc_pid_stat(5) */
  uint64_t run_ns, queued_ns;
  uint64_t slices; /* how often it got a CPU; 0: unknown */
} top_reading_t;

typedef struct top_thread {
  pid_t tid;
  char name[16];
  top_state_t state;
  double cpu;          /* of one CPU, in the last interval: 0 … 1 */
  uint64_t waiting_ns; /* in this wait, as far as it was seen */
  /* Waiting: the call that the program made. Else: the program's innermost function. "": unknown.
   */
  char call[TOP_CALL_MAX];
  bool is_call_current; /* CALL was read in this wait */
  /* ---- of this file ---- */
  top_reading_t last;
  uint64_t read_ns, since_ns;
  bool is_seen;
} top_thread_t;

typedef struct top_threads {
  top_thread_t *items; /* sorted by tid */
  size_t count, capacity;
} top_threads_t;

typedef enum top_sort { TOP_BY_CPU, TOP_BY_WAIT, TOP_BY_NAME, TOP_BY_TID, TOP_SORTS } top_sort_t;

/* The thread TID; NULL: none. */
top_thread_t *top_threads_find(top_threads_t *threads, pid_t tid);

/* Takes over a reading made at NOW_NS. Returns the thread, which is valid until the next new one;
 * NULL: out of memory. */
top_thread_t *top_threads_read(top_threads_t *threads, const top_reading_t *reading,
                               uint64_t now_ns);

/* Removes the threads without a reading since the last call. */
void top_threads_end(top_threads_t *threads);

/* Writes at most MAX threads, in the order SORT, to OUT: those whose name or call contains FILTER.
 * Returns their number. */
size_t top_threads_list(const top_threads_t *threads, top_sort_t sort, const char *filter,
                        const top_thread_t **out, size_t max);

const char *top_state_text(top_state_t state);
const char *top_sort_text(top_sort_t sort);
void top_threads_free(top_threads_t *threads);

#endif
