/* SPDX-License-Identifier: MIT
 *
 * A recording that the program writes to a file itself, without a recorder. If the program is
 * killed, its open chunks are lost; so tables are written with every chunk of events.
 *
 * Called by one thread at a time.
 */
#ifndef SONDE_RECORD_STANDALONE_H
#define SONDE_RECORD_STANDALONE_H

#include <stdbool.h>
#include <stdint.h>

#include "record/format.h"

/* Creates PATH, which must not exist, and starts a recording in mode 0: of nothing. Returns 0 or a
 * negative SONDE_E…. */
int standalone_begin(const char *path);

/* True if the next standalone_begin creates the shared buffers: the stack tables of this process
 * are in no recording yet. */
bool standalone_is_first(void);

/* True while such a recording exists. The others need one: the header of its file, and the time in
 * ticks. */
bool standalone_is_on(void);
const record_header_t *standalone_header(void);
uint64_t standalone_now(void);

/* Limits the file of the next recordings to BYTES; 0: no limit. */
void standalone_limit(uint64_t bytes);

/* Closes the recording. The mode must be 0 and no thread may be recording. Returns 0 or SONDE_EIO.
 */
int standalone_end(void);

/* As sonde_log_remove_orphan. HAS_AGENT: `sonde record` records this process. */
int standalone_remove_orphan(const char *path, bool has_agent);

#endif
