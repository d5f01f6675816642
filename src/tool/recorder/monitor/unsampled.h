/* SPDX-License-Identifier: MIT
 *
 * What a program does that the stall monitor cannot see: loops that wait by system calls of their
 * own, not the C library's; and more loops than it watches.
 */
#ifndef SONDE_RECORDER_MONITOR_STALL_UNCOVERED_H
#define SONDE_RECORDER_MONITOR_STALL_UNCOVERED_H

#include <stdbool.h>
#include <sys/types.h>

#define UNSAMPLED_GO       1u /* the Go runtime */
#define UNSAMPLED_IO_URING 2u /* it has a ring */
#define UNSAMPLED_LOOPS    4u /* more threads wait than there are places for (SHM_LOOPS) */

/* A set of the first two, of the process PID, as it is now. */
unsigned unsampled_detect(pid_t pid);

/* One of them, in words. */
const char *unsampled_text(unsigned one);

#endif
