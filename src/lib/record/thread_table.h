/* SPDX-License-Identifier: MIT
 *
 * The program's threads and their CPU time, in the shared buffers.
 *
 * An entry is claimed when its thread starts (the agent), gets a timer (the sampler), or is found
 * in /proc (the recorder), whichever comes first. The recorder frees it when the thread has ended.
 * All times are of the thread's CPU clock. `position_ns` divides it: everything before is in
 * `sampled_ns` or in one of the sums of unsampled time, so that a thread's CPU time is accounted
 * for without a remainder.
 *
 * The memory of a group of entries is allocated when the first of them is claimed: later, its
 * absence would be a SIGBUS. Most programs need one or two of the table's 32 pages.
 *
 * Who writes: while `outside` is 0, the thread itself at its ticks, and whoever creates its timer;
 * while it is 1, the recorder, which then samples the thread from outside. Only the recorder
 * changes `outside`, and not while the thread is in a tick.
 */
#ifndef SONDE_RECORD_THREAD_TABLE_H
#define SONDE_RECORD_THREAD_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

#define SHM_THREADS       2048u
#define SHM_THREADS_GROUP 64u /* entries of a group; there are 32 groups */

typedef struct shm_thread {
  uint32_t tid;           /* 0: free */
  uint32_t outside;       /* 1: the recorder samples it */
  uint32_t ticks_outside; /* ticks that it got meanwhile */
  uint16_t no_timer;      /* 1: the kernel gave it no timer */
  uint16_t in_tick;       /* 1: it writes a sample */
  uint64_t position_ns;
  uint64_t sampled_ns; /* covered by its samples */
  uint64_t before_ns;  /* before its timer was created */
  uint64_t off_ns;     /* while sampling was off */
  uint64_t lost_ns;    /* covered by samples that were left out or lost */
  uint64_t end_ns;     /* its CPU time near its end; 0: it has not ended */
} __attribute__((aligned(64))) shm_thread_t;

_Static_assert(sizeof(shm_thread_t) == 64, "one cache line");

typedef struct shm_threads {
  uint32_t started;    /* threads that ever had an entry */
  uint32_t backed;     /* a bit for each group whose memory is allocated */
  uint64_t process_ns; /* CPU time of the process when it exited; 0: it has not exited */
  shm_thread_t items[SHM_THREADS];
} shm_threads_t;

/* Whether entry I may be in use. Reading others would allocate memory. */
static inline bool thread_table_has(const shm_threads_t *table, uint32_t i) {
  return load_acquire(&table->backed) >> (i / SHM_THREADS_GROUP) & 1;
}

/* The entry of the living thread TID; NULL if it has none. Any thread, also in a signal handler. */
shm_thread_t *thread_table_find(shm_threads_t *table, uint32_t tid);

/* The entry of the thread TID that has noted its end. */
shm_thread_t *thread_table_find_ended(shm_threads_t *table, uint32_t tid);

/* As thread_table_find, and claims an entry if there is none; NULL if the table is full near TID's
 * place. */
shm_thread_t *thread_table_claim(shm_threads_t *table, uint32_t tid);

/* Empties ENTRY, whose thread has ended. The recorder only. */
void thread_table_free(shm_thread_t *entry);

/* The thread itself, in the handler of its tick. False if the recorder samples it: the tick is only
 * counted. Else thread_table_end_tick must follow, after the sample is written and accounted for.
 */
bool thread_table_begin_tick(shm_thread_t *entry);
void thread_table_end_tick(shm_thread_t *entry);

/* The recorder samples the thread from outside from now on. False if the thread is in a tick. */
bool thread_table_take(shm_thread_t *entry);

/* The thread is sampled by its own ticks again. The recorder only. */
void thread_table_give_back(shm_thread_t *entry);

/* Moves the position to NOW_NS and adds the time in between to *SUM, a field of ENTRY. */
void thread_table_account(shm_thread_t *entry, uint64_t now_ns, uint64_t *sum);

#endif
