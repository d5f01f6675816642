/* SPDX-License-Identifier: MIT
 *
 * Checks before the command runs whether the loader would preload the agent into it, so that the
 * user gets a reason and not an empty recording.
 */
#ifndef SONDE_RECORDER_PRELOAD_CHECK_H
#define SONDE_RECORDER_PRELOAD_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* False if the loader would not preload a library into COMMAND, which is searched in PATH as by
 * execvp. REFUSAL is then the reason, to be printed after the command's name. A command that is not
 * found or has an unknown format passes: exec reports the error. */
bool preload_check(const char *command, char *refusal, size_t size);

/* Whether COMMAND, or the executable that the process PID runs, is a Go program, which makes its
 * system calls without libc. */
bool preload_check_is_go(const char *command);
bool preload_check_process_is_go(pid_t pid);

#endif
