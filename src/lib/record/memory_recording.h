/* SPDX-License-Identifier: MIT
 *
 * A recording that the program makes of itself, with no recorder: into memory, and from there into
 * a file when it is asked for.
 */
#ifndef SONDE_RECORD_MEMORY_RECORDING_H
#define SONDE_RECORD_MEMORY_RECORDING_H

#include "record/writer.h"

/* Begins one, of which the newest LIMIT_BYTES of events are kept. 0 or a negative SONDE_E…;
 * SONDE_EBUSY when this process is being recorded already. */
int memory_recording_begin(uint64_t limit_bytes);

/* True when the recording of this process is its own. */
bool memory_recording_is_on(void);

/* The clock, not shifted, and os_monotonic_ns when it began. */
void memory_recording_start(uint64_t *ticks, uint64_t *ns);

/* Writes what was recorded so far to PATH, which must not exist. Others may go on recording. 0 or
 * a negative SONDE_E…. */
int memory_recording_save(const char *path);

/* Calls VISIT with a copy of each chunk there is, closed, at a multiple of 8, with 8 readable bytes
 * behind it, until it returns false; in no order. False when there is no memory or VISIT said so.
 */
bool memory_recording_each(bool (*visit)(void *context, const chunk_header_t *chunk),
                           void *context);

#endif
