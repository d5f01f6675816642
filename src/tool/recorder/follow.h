/* SPDX-License-Identifier: MIT
 *
 * --follow: records children of the program, each to its own file. The agent in a child requests
 * its recording (agent/follow.c). The recorder is not the parent of these processes. A pidfd
 * reports to the recorder when a child ends, but not with which status.
 */
#ifndef SONDE_RECORDER_FOLLOW_H
#define SONDE_RECORDER_FOLLOW_H

#include <poll.h>

#include "recorder/control.h"
#include "recorder/monitor/outside/agentless.h"
#include "recorder/monitors.h"
#include "recorder/processes.h"

/* Children recorded at the same time. */
#define FOLLOWED_MAX 512

typedef struct followed followed_t;

typedef struct follow {
  /* the program's own recording; a child's has its pid before the extension */
  const char *path;
  control_t *main;
  processes_t *processes;
  /* the agent is loaded into children that are found from outside */
  bool attaches;
  uint64_t limit_bytes;
  uint64_t keep_free_bytes; /* as in recorder_options_t */
  const monitor_options_t *monitor_options;
  const agentless_options_t *agentless;
  followed_t *first;
  size_t count;
  /* that a child is recorded from outside */
  bool has_noted;
} follow_t;

/* Creates the recording of the child PID, if there is none, and writes its settings for the agent.
 * False with a line in ERROR. */
bool follow_child(follow_t *follow, pid_t pid, char *settings, size_t size, char *error,
                  size_t error_size);

/* The child PID executes a statically linked program, and has a recording or gets one. IS_KNOWN as
 * in agentless_announce. */
void follow_announce(follow_t *follow, pid_t pid, bool is_known);

/* Its call of exec failed. */
void follow_stay(follow_t *follow, pid_t pid);

/* Begins to record the programs that children execute without the agent, when that is due. */
void follow_agentless(follow_t *follow);

/* The time until that is due, at most LIMIT_NS. */
uint64_t follow_agentless_left_ns(const follow_t *follow, uint64_t limit_ns);

/* Finds such programs whose parents have no agent either, and do not announce them. */
void follow_search_agentless(follow_t *follow);

/* The child's recording with TOKEN; NULL: there is none. */
control_t *follow_find(const follow_t *follow, const char *token);

/* Calls EACH for the recordings of all children that run. */
void follow_each(follow_t *follow, void (*each)(void *context, control_t *control), void *context);

/* Fills FDS with two descriptors a child, 2 * COUNT in all, for poll. */
void follow_poll(const follow_t *follow, struct pollfd *fds);

/* After poll: serves requests and finishes the recordings of children that have ended. */
void follow_serve(follow_t *follow, const struct pollfd *fds);

/* Whether a process with SETTINGS in its initial environment still runs: it may yet request a
 * recording. */
bool follow_remains(const char *settings);

/* Starts to record the children that were found in /proc, for a recording from outside. */
void follow_observe(follow_t *follow);

/* Finishes the recordings of children that run on. */
void follow_leave(follow_t *follow);

/* Calls recording_refresh for all children. */
void follow_refresh(follow_t *follow);

#endif
