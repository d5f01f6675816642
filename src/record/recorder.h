/* SPDX-License-Identifier: MIT
 *
 * A recording from outside: making the file and the scratch before the program starts, collecting
 * what is left open when it has ended, however it ended.
 */
#ifndef SONDE_RECORD_RECORDER_H
#define SONDE_RECORD_RECORDER_H

#include <stddef.h>

#include "record/format.h"
#include "record/scratch.h"

typedef struct recording {
  int file_fd, scratch_fd;
  scratch_control_t *control; /* the scratch, mapped */
  record_header_t header;
} recording_t;

/* Makes the recording PATH, which must not exist, of a program PID, and its scratch. MODE is what
 * is recorded (RECORD_… bits), SAMPLE_BYTES the rate of RECORD_SAMPLED_BLOCKS, LIMIT_BYTES bounds
 * the file (0: no limit). On failure returns a negative SONDE_E…, leaves no file and writes one
 * line to ERROR. */
int recording_create(recording_t *r, const char *path, uint32_t pid, uint32_t mode,
                     uint64_t sample_bytes, uint64_t limit_bytes, char *error, size_t error_size);

/* The settings that the agent is handed in its environment. */
void recording_settings(const recording_t *r, char *out, size_t size);

/* Brings the header's clock calibration and counters up to date; every second or so, so that a
 * recording whose recorder is killed can still be read with true times. */
void recording_refresh(recording_t *r);

/* The program has ended with WAIT_STATUS: appends the open chunks and finishes the header. Returns
 * 0, or a negative SONDE_E… when not all of it could be written; the header then tells. */
int recording_finish(recording_t *r, int wait_status);

/* Closes what recording_create opened. */
void recording_release(recording_t *r);

/* The text of a stop reason. */
const char *record_stop_text(uint32_t reason);

#endif
