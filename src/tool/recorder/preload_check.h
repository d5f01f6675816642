/* SPDX-License-Identifier: MIT
 *
 * Checks, before the command runs, whether the loader would preload the agent into the command. If
 * not, the user gets a reason instead of an empty recording.
 */
#ifndef SONDE_RECORDER_PRELOAD_CHECK_H
#define SONDE_RECORDER_PRELOAD_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Copies the path of COMMAND, searched in PATH as by execvp. False if it is not found. */
bool preload_find(const char *command, char *out, size_t size);

typedef enum preload_verdict {
  PRELOAD_WORKS,        /* or the file cannot be read, or has an unknown format */
  PRELOAD_STATIC,       /* statically linked */
  PRELOAD_32_BIT,       /* of another size than the agent */
  PRELOAD_GAINS_RIGHTS, /* setuid, setgid or file capabilities (AT_SECURE, ld.so(8)) */
} preload_verdict_t;

/* Whether the loader preloads a library into FILE below the folder ROOT, executed by USER and
 * GROUP. Follows the interpreters of scripts. */
preload_verdict_t preload_check_file(const char *root, const char *file, uid_t user, gid_t group);

/* False if COMMAND, which is searched in PATH as by execvp, cannot be recorded. REFUSAL is then the
 * reason, to be printed after the command's name. A static program passes: start/plan.h has another
 * way for it. A command that is not found or has an unknown format passes: exec reports the error.
 */
bool preload_check(const char *command, char *refusal, size_t size);

/* Whether COMMAND is a static program, and nothing else keeps sonde from starting it. */
bool preload_check_is_static(const char *command);

/* Whether COMMAND, the file PATH, or the executable that the process PID runs, is a Go program,
 * which makes its system calls without libc. */
bool preload_check_is_go(const char *command);
bool preload_check_path_is_go(const char *path);
bool preload_check_process_is_go(pid_t pid);

#endif
