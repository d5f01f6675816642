/* SPDX-License-Identifier: MIT
 *
 * Can a library be preloaded into this program? Asked before it is run, so that the answer is a
 * sentence and not an empty recording.
 */
#ifndef SONDE_RECORDER_PRELOAD_CHECK_H
#define SONDE_RECORDER_PRELOAD_CHECK_H

#include <stdbool.h>
#include <stddef.h>

/* False when the loader would not preload into COMMAND (found along PATH as execvp does), with the
 * reason, to follow the command's name, in REFUSAL. A command that is not found or not understood
 * is left to the exec. */
bool preload_check(const char *command, char *refusal, size_t size);

/* Whether COMMAND is a program of Go, which makes its system calls itself. */
bool preload_check_is_go(const char *command);

#endif
