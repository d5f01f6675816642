/* SPDX-License-Identifier: MIT
 *
 * How `sonde ctl` talks to a program that runs under `sonde record`: to its recorder, over a socket
 * of the user's own. Nothing is added to the program.
 *
 * The socket is of AF_UNIX, with an abstract name (unix(7)) made of the user, the pid namespace and
 * the program's pid, so that it leaves nothing behind, whoever is killed. An abstract name has no
 * permissions: both ends ask the kernel who the other one is (SO_PEERCRED) and talk to their own
 * user and to root alone.
 *
 * One request a connection: one line of text of at most CONTROL_LINE_MAX bytes. The answer is
 * text: a first line "ok", or "error " and what is wrong; then lines of what was asked for, "name
 * value" each; then the connection ends.
 *
 * The recorder serves between waiting for the program and for its other duties, one request at a
 * time, in its only thread. What it does to the program it does through the scratch's control block
 * (record/shm.h), or reads from memory that it shares with it (record/live_table.h).
 *
 * A new command is a function control_NAME in a file of its own and a line in CONTROL_TABLE.
 */
#ifndef SONDE_RECORDER_CONTROL_H
#define SONDE_RECORDER_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "recorder/recording_file.h"

#define CONTROL_LINE_MAX 1024

/* What a command may use. */
typedef struct control {
  int fd; /* listens; negative: it cannot be controlled */
  recording_t *recording;
  const char *path;      /* of the recording */
  pid_t pid;             /* of the program */
  pid_t client_pid;      /* of the request that is served */
  struct follow *follow; /* NULL: children are not recorded */
} control_t;

#define CONTROL_NAME_MAX 80

/* Does what is asked, with ARGUMENT ("" for none), and writes lines to ANSWER, or on failure
 * returns false and has written what is wrong, without a newline. */
typedef bool control_command_t(control_t *control, const char *argument, FILE *answer);

/* X(name, takes an argument: 0 no, 1 after '=', 2 after ' ') */
#define CONTROL_TABLE(X)                                                                           \
  X(status, 0)                                                                                     \
  X(malloc, 1)                                                                                     \
  X(sample, 1)                                                                                     \
  X(trace, 1)                                                                                      \
  X(audit, 1)                                                                                      \
  X(snapshot, 0)                                                                                   \
  X(mark, 2)                                                                                       \
  X(follow, 0)                                                                                     \
  X(leaks, 1)                                                                                      \
  X(stop, 0)

#define CONTROL_DECLARE(name, argument) control_command_t control_##name;
CONTROL_TABLE(CONTROL_DECLARE)
#undef CONTROL_DECLARE

/* ---- the recorder's end ------------------------------------------------------------------- */

/* Listens for requests about the program PID. On failure says why in a line of its own and the
 * recording goes on without. */
void control_open(control_t *control, recording_t *recording, const char *path, pid_t pid);

/* Serves one request, when there is one; waits for a slow client_pid one second. */
void control_serve(control_t *control);
void control_close(control_t *control);

/* The socket's abstract name, to OUT, which has room for CONTROL_NAME_MAX bytes; "" without one. */
void control_name(const control_t *control, char *out);

/* ---- the client_pid's end ----------------------------------------------------------------------
 */

/* Sends LINE to the recorder of PID and reads the answer whole into *ANSWER, to be freed: what
 * follows the line "ok", or what follows "error " with *FAILED. Returns 0 or a negative errno:
 * -ESRCH when no recorder answers for PID, -EACCES when it is another user's. */
int control_request(pid_t pid, const char *line, char **answer, bool *failed);

/* Says why control_request has returned STATUS, a negative errno; returns the command's exit
 * status. */
int control_print_error(pid_t pid, int status);

/* ---- modes as text ------------------------------------------------------------------------ */

/* all, malloc, vm, live, livevm, off or sample:BYTES as RECORD_… bits and a rate. */
bool control_parse_malloc(const char *text, uint32_t *mode, uint64_t *sample_bytes);

/* The other way; TEXT has room for 40 characters. */
const char *control_malloc_text(uint32_t mode, uint64_t sample_bytes, char *text);

#endif
