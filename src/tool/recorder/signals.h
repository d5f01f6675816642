/* SPDX-License-Identifier: MIT
 *
 * Signals of the recorder while the command runs.
 */
#ifndef SONDE_RECORDER_SIGNALS_H
#define SONDE_RECORDER_SIGNALS_H

#include <signal.h>
#include <sys/types.h>

/* Ignores SIGINT and SIGQUIT, which a terminal sends to the command as well. Forwards SIGTERM,
 * SIGHUP, SIGUSR1 and SIGUSR2 to PID. Blocks SIGCHLD; *WAITING is the mask that unblocks it, for
 * ppoll(2), so that the end of the command is never missed. */
void signals_forward(pid_t pid, sigset_t *waiting);

/* Ends as the process with the wait status STATUS ended: returns its exit status, or raises the
 * signal that ended it, without a core file. */
int signals_end_as(int status);

#endif
