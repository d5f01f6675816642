/* SPDX-License-Identifier: MIT
 *
 * Stacks of running threads that the kernel does not sample: each is stopped for some microseconds
 * (target/stop/stop.h). The kernel may refuse (perf_event_open(2)), and it copies no Python frames.
 *
 * A stop can meet a thread that has just begun a system call. On x86_64 the stop makes such a call
 * start again; elsewhere it could fail with EINTR, so threads are not stopped there.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_STOPPED_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_STOPPED_H

#include "recorder/monitor/thread_stacks.h"

/* Whether this system may stop threads unseen. */
bool stopped_is_possible(void);

/* Reads those of the COUNT threads TIDS, sorted, that run now, and passes the id of each one's
 * stack to EACH. */
void stopped_read(thread_stacks_t *stacks, const pid_t *tids, size_t count,
                  void (*each)(void *context, pid_t tid, uint32_t stack), void *context);

#endif
