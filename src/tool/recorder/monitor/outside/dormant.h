/* SPDX-License-Identifier: MIT
 *
 * The dormant agent: a program with libsonde-dormant.so preloaded sleeps until the recorder writes
 * its number to the board (dormant/board.h), a file that the user's programs share. This needs no
 * ptrace and no capability: the right to write the user's file suffices.
 *
 * The board is found in /proc/PID/maps and opened in the root folder of the process, so it may be
 * in a container. The path that the process has is not trusted: no link in it is followed, and the
 * file must be the mapped one. All functions are for the recorder's main thread.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_DORMANT_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_DORMANT_H

#include "recorder/control.h"
#include "target/target.h"

/* Whether the process PID has a dormant agent, asleep or awake. */
bool dormant_is_in(pid_t pid);

/* Wakes the agent of CONTROL's process for the recording of SETTINGS. Serves the control socket
 * until the program has noticed, at most a minute; a signal that ends the recording ends the wait.
 * False with PROBLEM. */
bool dormant_wake(control_t *control, const char *settings, problem_t *problem);

/* Makes it sleep again. False with PROBLEM if the program has not noticed yet. */
bool dormant_rest(control_t *control, problem_t *problem);

#endif
