/* SPDX-License-Identifier: MIT
 *
 * Which existing file a recording may replace. An old recording may be replaced unless it is still
 * being written. Any other file is replaced only by force, unless it is empty, as of mktemp(1). One
 * thread uses this.
 */
#ifndef SONDE_RECORDER_REPLACE_H
#define SONDE_RECORDER_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/output.h"

/* Opens the file of a recording by the rule of output_open. FORCE: any regular file may be
 * replaced, except a recording that is still being written. FOLLOW: the recordings of children will
 * be in the same folder. Prints an error and returns false on failure. */
bool replace_open(output_t *out, const char *path, bool is_default, bool force, bool follow);

/* Writes the default path of a recording of COMMAND, process PID, to OUT. Removes old recordings of
 * that name that had no end. */
void replace_default(char *out, size_t size, const char *command, pid_t pid);

#endif
