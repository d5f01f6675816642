/* SPDX-License-Identifier: MIT
 *
 * The cause of a stall, as a pure function of the observations of its thread.
 */
#ifndef SONDE_SENSOR_STALL_STALL_LABEL_H
#define SONDE_SENSOR_STALL_STALL_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, key, text) */
#define STALL_LABEL_TABLE(X)                                                                       \
  X(STALL_ON_CPU, "cpu", "on the CPU")                                                             \
  X(STALL_ON_CPU_KERNEL, "kernel", "on the CPU, in the kernel")                                    \
  X(STALL_MINOR_FAULTS, "page-faults", "on the CPU, in page faults")                               \
  X(STALL_MAJOR_FAULTS, "disk-faults", "waiting for pages from the disk")                          \
  X(STALL_LOCK, "lock", "waiting for a lock")                                                      \
  X(STALL_DEADLOCK, "deadlock", "in a deadlock")                                                   \
  X(STALL_DISK, "uninterruptible", "blocked in an uninterruptible call")                           \
  X(STALL_BLOCKED, "blocked", "blocked in a call")                                                 \
  X(STALL_STARVED, "waiting-for-cpu", "waiting for a CPU")                                         \
  X(STALL_MIXED, "mixed", "several causes")                                                        \
  X(STALL_UNKNOWN, "unknown", "unknown cause")

typedef enum stall_label {
#define STALL_LABEL_ENUM(name, key, text) name,
  STALL_LABEL_TABLE(STALL_LABEL_ENUM)
#undef STALL_LABEL_ENUM
} stall_label_t;

const char *stall_label_key(stall_label_t label);
const char *stall_label_text(stall_label_t label);

/* The state of a thread at one sample. Counts begin at the stall's first sample, WINDOW_NS before.
 */
typedef struct stall_observation {
  char state; /* as in proc(5) */
  bool frozen, is_mutex;
  const char *call; /* the system call that the thread is in; "": none, or unknown */
  uint64_t args[3]; /* the call's first arguments */
  uint64_t window_ns, run_ns, runq_ns;
  uint64_t minor_faults, major_faults;
  uint64_t user_ticks, system_ticks;
} stall_observation_t;

/* Where the time of a stall went, in ns. */
typedef struct stall_totals {
  uint64_t run_ns, runq_ns, blocked_ns;
  uint64_t disk_ns;  /* uninterruptible, in a system call */
  uint64_t fault_ns; /* uninterruptible, in no system call */
  uint64_t lock_ns;  /* part of blocked_ns: waiting for a mutex */
  uint64_t other_ns;
  uint64_t minor_faults, major_faults, user_ticks, system_ticks;
  bool deadlock;
} stall_totals_t;

/* Adds an observation that represents WEIGHT_NS. The thread was on a CPU for RAN_NS of this time,
 * by the counts of this sample and its neighbors. */
void stall_totals_add(stall_totals_t *totals, const stall_observation_t *seen, uint64_t weight_ns,
                      uint64_t ran_ns);

stall_label_t stall_label_of(const stall_totals_t *totals);

#endif
