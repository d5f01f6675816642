/* SPDX-License-Identifier: MIT
 *
 * The control socket: `sonde ctl`, `sonde leaks` and the agent send requests to a program's
 * recorder. The program needs no listener.
 *
 * The control socket is an AF_UNIX socket with an abstract name (unix(7)) made of the user, the pid
 * namespace and the program's pid, so a killed recorder leaves nothing behind. An abstract name has
 * no permissions: both ends check the other's user with SO_PEERCRED and accept only their own user
 * and root. A recorded program may run as another user (su, a daemon that gives up its rights). The
 * agent therefore starts its requests with the token of the settings (record/settings.h). Then any
 * user is served. Such a process gets descriptors of its own recording only.
 *
 * Each connection carries one request, a line of at most CONTROL_LINE_MAX bytes, and its reply: a
 * line "ok" and lines "name value", or "error " and the reason. Then the connection is closed.
 *
 * The recorder serves one request at a time in its main thread. Commands change the program through
 * the control block of the shared buffers (record/shm.h) and read tables in shared memory
 * (record/live_table.h).
 *
 * A new command is a function control_NAME and a line in CONTROL_TABLE.
 */
#ifndef SONDE_RECORDER_CONTROL_H
#define SONDE_RECORDER_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "recorder/recording_file.h"

/* A path fits, with a token and a word. */
#define CONTROL_LINE_MAX 4608

#define CONTROL_NAME_MAX 80

/* The state that commands use. */
typedef struct control {
  /* the listening socket; negative: the recording cannot be controlled */
  int fd;
  recording_t *recording;
  /* of the recording */
  const char *path;
  /* of the program */
  pid_t pid;
  char token[SHM_TOKEN_MAX];
  /* whose socket the agent uses; NULL: its own. Agents of children use the program's: in another
   * network namespace there is no other one. */
  struct control *listener;
  /* the recorder waits for the end of a command, also after the recording */
  bool has_command;
  /* of a process that ran before: a request ended the recording */
  bool is_over;
  /* the agent was loaded into that process, to this range; 0: by the process's loader */
  bool is_attached;
  uint64_t agent_start, agent_size;
  /* who sent the current request */
  pid_t client_pid;
  /* a descriptor that the reply carries; -1: none */
  int passed;
  /* NULL: children are not recorded */
  struct follow *follow;
  /* of the program's recording; NULL in those of children */
  struct processes *processes;
  struct agentless *agentless;
  /* the agent's file; -1 in the recordings of children */
  int agent_fd;
} control_t;

/* Executes a command. ARGUMENT is "" if it has none. Returns true after writing lines to REPLY, or
 * false after writing the reason without a newline. */
typedef bool control_command_t(control_t *control, const char *argument, FILE *reply);

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
  X(descriptor, 2)                                                                                 \
  X(executes, 2)                                                                                   \
  X(spawned, 2)                                                                                    \
  X(stays, 0)                                                                                      \
  X(change, 2)                                                                                     \
  X(leaks, 1)                                                                                      \
  X(attach, 0)                                                                                     \
  X(detach, 0)                                                                                     \
  X(stop, 0)

#define CONTROL_DECLARE(name, argument) control_command_t control_##name;
CONTROL_TABLE(CONTROL_DECLARE)
#undef CONTROL_DECLARE

/* ---- the server: the recorder ------------------------------------------------------------- */

/* Listens for requests about the program PID. On failure prints why; recording continues. */
void control_open(control_t *control, recording_t *recording, const char *path, pid_t pid);

/* Accepts and serves one request, if there is one, from its socket or from LISTENING_FD. Waits at
 * most a second for a slow client. */
void control_serve(control_t *control);
void control_serve_on(control_t *control, int listening_fd);
void control_close(control_t *control);

/* Writes the abstract name of the socket that the agent uses to OUT, at most CONTROL_NAME_MAX
 * bytes; "" without a socket. */
void control_name(const control_t *control, char *out);

/* Tells the program that the recorder has changed a setting that it polls (record/shm.h). */
void control_notify(const control_t *control);

/* Writes the settings of the recording for the agent, with FOLLOW for its children, too. */
void control_settings(const control_t *control, bool follow, char *out, size_t size);

/* ---- the client --------------------------------------------------------------------------- */

/* Sends LINE to the recorder of process PID. *REPLY is the text after "ok" or "error "; the caller
 * frees it. *FAILED is true for an error. Returns 0 or a negative errno: -ESRCH if no recorder
 * serves PID, -EACCES if it belongs to another user. */
int control_request(pid_t pid, const char *line, char **reply, bool *failed);

/* Prints why control_request returned STATUS, a negative errno. Returns MESSAGE_FAILED. */
int control_print_error(pid_t pid, int status);

/* ---- modes as text ------------------------------------------------------------------------ */

/* Parses a value of --malloc: all, malloc, vm, live, livevm, off or sample:BYTES. */
bool control_parse_malloc(const char *text, uint32_t *mode, uint64_t *sample_bytes);

/* The value for MODE; TEXT has space for 40 characters. */
const char *control_malloc_text(uint32_t mode, uint64_t sample_bytes, char *text);

#endif
