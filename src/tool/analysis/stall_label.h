/* SPDX-License-Identifier: MIT
 *
 * Why a turn was long: a pure function of what was seen of its thread.
 */
#ifndef SONDE_ANALYSIS_STALL_LABEL_H
#define SONDE_ANALYSIS_STALL_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, key, text) */
#define STALL_LABEL_TABLE(X)                                                                       \
  X(STALL_ON_CPU, "cpu", "on the CPU")                                                             \
  X(STALL_ON_CPU_KERNEL, "kernel", "on the CPU, in the kernel")                                    \
  X(STALL_MINOR_FAULTS, "page-faults", "on the CPU, page after page faulted in")                   \
  X(STALL_MAJOR_FAULTS, "disk-faults", "waiting for pages from the disk")                          \
  X(STALL_LOCK, "lock", "waiting for a lock")                                                      \
  X(STALL_DEADLOCK, "deadlock", "in a deadlock")                                                   \
  X(STALL_DISK, "uninterruptible", "blocked in a call that nothing interrupts")                    \
  X(STALL_BLOCKED, "blocked", "blocked in a call")                                                 \
  X(STALL_STARVED, "starved", "ready, and given no CPU")                                           \
  X(STALL_MIXED, "mixed", "of several causes")                                                     \
  X(STALL_UNKNOWN, "unknown", "not known")

typedef enum stall_label {
#define STALL_LABEL_ENUM(name, key, text) name,
  STALL_LABEL_TABLE(STALL_LABEL_ENUM)
#undef STALL_LABEL_ENUM
} stall_label_t;

const char *stall_label_key(stall_label_t label);
const char *stall_label_text(stall_label_t label);

/* One look at the thread. Counts are since the first look at the turn, WINDOW_NS before. */
typedef struct stall_observation {
  char state; /* as in proc(5) */
  bool frozen, is_mutex;
  const char *call; /* the system call it is in; "" when it is in none that is known */
  long fd_or_first; /* the call's first argument */
  uint64_t window_ns, run_ns, runq_ns;
  uint64_t minor_faults, major_faults;
  uint64_t user_ticks, system_ticks;
} stall_observation_t;

/* Where the time of a turn went, in ns. */
typedef struct stall_totals {
  uint64_t run_ns, runq_ns, blocked_ns, disk_ns; /* DISK: uninterruptible, in a call */
  uint64_t fault_ns;                             /* uninterruptible, in no call */
  uint64_t lock_ns;                              /* of BLOCKED: for a mutex */
  uint64_t other_ns;
  uint64_t minor_faults, major_faults, user_ticks, system_ticks;
  bool deadlock;
} stall_totals_t;

/* Adds a look that stands for WEIGHT_NS; RAN_NS of these, as the looks before and after tell, the
 * thread was on a CPU. */
void stall_totals_add(stall_totals_t *totals, const stall_observation_t *seen, uint64_t weight_ns,
                      uint64_t ran_ns);

stall_label_t stall_label_of(const stall_totals_t *totals);

#endif
