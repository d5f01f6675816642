/* SPDX-License-Identifier: MIT
 *
 * Event loops that the stall monitor cannot see: those that wait in system calls of their own, not
 * in libc's; and those beyond the number that it monitors.
 */
#ifndef SONDE_RECORDER_MONITOR_UNSAMPLED_H
#define SONDE_RECORDER_MONITOR_UNSAMPLED_H

#include <stdbool.h>
#include <sys/types.h>

/* The Go runtime. */
#define UNSAMPLED_GO 1u
/* The process has an io_uring. */
#define UNSAMPLED_IO_URING 2u
/* More event loops than SHM_LOOPS. */
#define UNSAMPLED_LOOPS 4u
/* There is no agent: outside/loops.h. */
#define UNSAMPLED_OUTSIDE 8u

/* The set of UNSAMPLED_GO and UNSAMPLED_IO_URING that applies to process PID now. */
unsigned unsampled_detect(pid_t pid);

/* The sentence that reports ONE, a bit of that set UNSAMPLED_LOOPS or UNSAMPLED_OUTSIDE. */
const char *unsampled_text(unsigned one);

#endif
