/* SPDX-License-Identifier: MIT
 *
 * Starts the command with the agent preloaded. The child is forked before its recording exists,
 * because the recording contains the child's pid. The child executes the command when it receives
 * the settings.
 */
#ifndef SONDE_RECORDER_START_LAUNCH_H
#define SONDE_RECORDER_START_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "record/settings.h"
#include "recorder/start/hold.h"

typedef struct launch {
  pid_t pid;
  /* to the child: its settings; an end of file without them ends it */
  int start_fd;
  /* from the child: errno of a failed exec */
  int error_fd;
  /* after launch_start, a held child is stopped */
  hold_t hold;
} launch_t;

/* What is traced from outside by ptrace(2), which Yama allows only to those that the program names
 * (PR_SET_PTRACER of prctl(2)). */
typedef struct launch_tracing {
  /* by a process that may trace the child until it has its settings */
  bool system_calls;
  /* by processes of the recorder, whenever code changes (attach/change.h) */
  bool functions;
} launch_tracing_t;

/* The path of sonde's library NAME, found from the command's own path. False if it does not exist.
 */
bool launch_find_library(const char *name, char *out, size_t size);

/* The path of libsonde-agent.so, as launch_find_library. */
bool launch_find_agent(char *out, size_t size);

/* The path of libsonde-attached.so, as launch_find_library. */
bool launch_find_attached(char *out, size_t size);

/* Forks the child, which preloads AGENT; NULL: nothing. False with errno. */
bool launch_fork(launch_t *launch, char **command, const char *agent, launch_tracing_t tracing);

/* Before launch_start: the child is to stop at the first instruction of the command until
 * launch_release. If the system does not allow that, the child runs on. */
void launch_hold(launch_t *launch);

/* Lets the child run, if it is held. Call it from the thread that called launch_hold. */
void launch_release(launch_t *launch);

/* Sends SETTINGS (recording_settings), which makes the child execute the command. Returns 0, or
 * errno of the failed exec. */
int launch_start(launch_t *launch, const char *settings);

/* Ends the child instead of starting it. */
void launch_cancel(launch_t *launch);

#endif
