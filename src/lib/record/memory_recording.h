/* SPDX-License-Identifier: MIT
 *
 * A recording that the program keeps in its own memory, without a recorder, and writes to a file on
 * request.
 */
#ifndef SONDE_RECORD_MEMORY_RECORDING_H
#define SONDE_RECORD_MEMORY_RECORDING_H

#include "record/writer.h"

/* Starts a recording that keeps the newest LIMIT_BYTES of events. Returns 0 or a negative SONDE_E…;
 * SONDE_EBUSY if this process is being recorded already. */
int memory_recording_begin(uint64_t limit_bytes);

/* True if this process records into its own memory. */
bool memory_recording_is_on(void);

/* The unshifted clock and os_monotonic_ns at the start of the recording. */
void memory_recording_start(uint64_t *ticks, uint64_t *ns);

/* Measures the clock's rate, which takes up to 0.1 ms, for the `calibrated_…` of shm.h. */
void memory_recording_calibrate(void);

/* Writes the recording so far to PATH, which must not exist. Other threads may continue to record.
 * Returns 0 or a negative SONDE_E…. */
int memory_recording_save(const char *path);

/* Calls VISIT with a closed copy of each chunk, in no order, until it returns false. The copy is
 * aligned to 8 bytes and followed by 8 readable bytes. Returns false if VISIT did or on out of
 * memory. */
bool memory_recording_each(bool (*visit)(void *context, const chunk_header_t *chunk),
                           void *context);

#endif
