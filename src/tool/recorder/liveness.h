/* SPDX-License-Identifier: MIT
 *
 * Whether a process still writes a recording. A process with a recorded pid counts only if it
 * started before the recording, or if its start time cannot be read; otherwise the pid was reused.
 * A zombie does not count. Processes of another namespace of process ids, for example in another
 * container, cannot be seen from here. For these only the time of the last change counts: a running
 * recorder updates the header every second.
 */
#ifndef SONDE_RECORDER_LIVENESS_H
#define SONDE_RECORDER_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "record/format.h"

/* The namespace of this process's ids, for the header. 0: unknown. */
uint64_t liveness_pid_space(void);

/* Whether FILE changed within the last minute. */
bool liveness_is_recent(const struct stat *file);

/* Whether the pids in HEADER are of this process's namespace, so that liveness_is_written finds the
 * processes. */
bool liveness_can_tell(const record_header_t *header);

/* Whether the program or the recorder of the unfinished recording FILE with HEADER runs, or another
 * process that this one may examine has FILE open. */
bool liveness_is_written(const struct stat *file, const record_header_t *header);

/* Whether the process PID, which was creating FILE, runs or a process has FILE open. */
bool liveness_of_part(uint32_t pid, const struct stat *file);

/* ---- orphans: recordings whose program and recorder ended without finishing them ------------- */

typedef enum orphan_verdict {
  ORPHAN_NOT_OURS, /* not a recording */
  ORPHAN_FINISHED,
  ORPHAN_LIVING, /* a process may still write it */
  ORPHAN_YES,
} orphan_verdict_t;

/* Judges the file FD with the facts FILE. */
orphan_verdict_t orphan_judge(int fd, const struct stat *file);

/* An orphan may be the only trace of a crash, so it stays this long. */
#define ORPHAN_KEPT_SECONDS (24 * 60 * 60)

/* Removes the orphans in the folder of PATH, a default name COMMAND.PID.sonde, that are recordings
 * of COMMAND and have not changed for ORPHAN_KEPT_SECONDS. Returns their number. */
unsigned orphans_remove_old(const char *path);

#endif
