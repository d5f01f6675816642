/* SPDX-License-Identifier: MIT
 *
 * A limit for the time that a thread of another process may take, on a machine that may be
 * overloaded. Time in which the thread is ready to run and gets no CPU does not count, and neither
 * does time in which the waiting process got none: so a limit means that the thread hangs, not that
 * it is slow.
 */
#ifndef SONDE_ATTACH_PATIENCE_H
#define SONDE_ATTACH_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How often patience_is_over should be called. A longer pause of the waiting process counts as
 * this. */
#define PATIENCE_STEP_NS UINT64_C(20000000)

typedef struct patience {
  pid_t pid, tid;
  uint64_t left_ns; /* of the limit */
  uint64_t end_ns;  /* an end in any case, on the monotonic clock */
  uint64_t seen_ns; /* on the monotonic clock, when it was last asked */
  uint64_t cpu_ns;  /* that the thread had used then */
} patience_t;

/* Begins to wait for the thread TID of process PID. */
patience_t patience_begin(pid_t pid, pid_t tid, uint64_t limit_ns);

/* Whether the limit is reached. */
bool patience_is_over(patience_t *patience);

/* The part of PASSED_NS that counts for a thread that used CPU_NS meanwhile; IS_READY: it runs or
 * is ready to run. */
uint64_t patience_counted_ns(uint64_t passed_ns, uint64_t cpu_ns, bool is_ready);

#endif
