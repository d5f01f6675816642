/* SPDX-License-Identifier: MIT
 *
 * Children of the recorded program, recorded to files of their own: see agent/follow.c for their
 * end. The recorder is not their parent: it learns of their end by a pidfd, and not how they ended.
 */
#ifndef SONDE_RECORDER_FOLLOW_H
#define SONDE_RECORDER_FOLLOW_H

#include <poll.h>

#include "recorder/control.h"
#include "recorder/monitors.h"

#define FOLLOWED_MAX 512 /* at a time */

typedef struct followed followed_t;

typedef struct follow {
  const char *path; /* of the program's own recording: a child's has its pid before the ending */
  const control_t *main;
  uint64_t limit_bytes;
  const monitor_options_t *monitor_options;
  followed_t *first;
  size_t count;
} follow_t;

/* The recording of the child PID, made when there is none yet: its settings for the agent. False
 * with a line in ERROR. */
bool follow_child(follow_t *follow, pid_t pid, char *settings, size_t size, char *error,
                  size_t error_size);

/* What is to be waited for: two places a child. FDS has room for 2 * COUNT. */
void follow_poll(const follow_t *follow, struct pollfd *fds);

/* After the wait: serves what was asked, finishes what has ended. */
void follow_serve(follow_t *follow, const struct pollfd *fds);

/* Whether some process that was started with SETTINGS in its environment still runs: it may yet ask
 * for a recording. */
bool follow_remains(const char *settings);

/* As recording_refresh, of all. */
void follow_refresh(follow_t *follow);

#endif
