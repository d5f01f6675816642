/* SPDX-License-Identifier: MIT
 *
 * What /proc proves about a process that does nothing: that it waits for ever, and that it has
 * children that ended. Linux only.
 */
#ifndef SONDE_REPORT_WHY_STUCK_H
#define SONDE_REPORT_WHY_STUCK_H

#include "target/target.h"

/* Whether no thread of TARGET can go on, however long it waits. Each thread waits without a timeout
 * for a futex of its own process, for the end of a thread, or for data of a pipe that no other
 * process can write to; and the process catches no signal whose handler might wake one. The threads
 * are those of the last capture, which must have been blocked all the time. */
bool stuck_for_ever(const target_t *target);

/* The children of process PID that ended and that it has not waited for. */
unsigned stuck_zombies(pid_t pid);

#endif
