/* SPDX-License-Identifier: MIT
 *
 * Seccomp filters that the agent has not read: the program installed them by an instruction of its
 * own, not by the C library.
 */
#ifndef SONDE_RECORDER_MONITOR_FILTERS_H
#define SONDE_RECORDER_MONITOR_FILTERS_H

#include "record/shm.h"

/* Reads the number of filters of the program's threads. If one has more than the agent knows, the
 * recording of the program ends: any system call of sonde may end the program. From outside, sonde
 * makes no system call in the program, so nothing ends. */
void filters_check(shm_control_t *control);

#endif
