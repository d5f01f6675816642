/* SPDX-License-Identifier: MIT
 *
 * A recording from outside: making the file and the scratch before the program starts, collecting
 * what is left open when it has ended, however it ended.
 */
#ifndef SONDE_RECORDER_RECORDING_FILE_H
#define SONDE_RECORDER_RECORDING_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "record/format.h"
#include "record/shm.h"

typedef struct recording {
  int file_fd, shm_fd;
  shm_control_t *control; /* the scratch, mapped */
  record_header_t header;
  /* the recorder's own stream */
  int live_fd; /* the table of live blocks */
  uint32_t sequence, exec_index;
  uint64_t next_checkpoint_ns, checkpoint_after_ns; /* since the start */
} recording_t;

/* Makes the recording PATH, which must not exist, of a program PID, and its scratch. MODE is what
 * is recorded (RECORD_… bits), SAMPLE_BYTES the rate of RECORD_SAMPLED_BLOCKS, LIMIT_BYTES bounds
 * the file, which then keeps the newest events (0: no limit). On failure returns a negative
 * SONDE_E…, leaves no file and writes one line to ERROR. */
int recording_create(recording_t *r, const char *path, uint32_t pid, uint32_t mode,
                     uint64_t sample_bytes, uint64_t limit_bytes, char *error, size_t error_size);

/* The settings that the agent is handed in its environment. */
void recording_settings(const recording_t *r, char *out, size_t size);

/* Brings the header's clock calibration and counters up to date; every second or so, so that a
 * recording whose recorder is killed can still be read with true times. */
void recording_refresh(recording_t *r);

/* ---- the recorder's own records (read_own.c); 0 or a negative SONDE_E… -------------------- */

/* From now on MODE (RECORD_…) is recorded. Where the mode `live` ends, what is live is written
 * first. SAMPLE_BYTES as for recording_create. */
int recording_set_mode(recording_t *r, uint32_t mode, uint64_t sample_bytes);

/* From now on calls are traced, or no longer: what instrumented code calls looks at it each time.
 */
void recording_set_tracing(recording_t *r, bool on);

/* Writes what is live now, when the mode is `live`; its count to *BLOCKS. SONDE_EINVAL in other
 * modes, whose recording has it all. */
int recording_snapshot(recording_t *r, snapshot_reason_t reason, uint64_t *blocks);

/* A descriptor of what the table of live blocks holds now, or SONDE_ENOMEM; and a snapshot written
 * from it, of the moment TIME at which it was kept. The first is quick: the program waits for it.
 */
int recording_copy_live(const recording_t *r);
int recording_snapshot_of_copy(recording_t *r, int fd, uint64_t time);

/* Writes what is mapped now, when regions are recorded. */
int recording_checkpoint(recording_t *r);

/* Nothing more is recorded; what was is collected at the end. After recording_set_mode to 0. */
void recording_stop(recording_t *r);

/* Gives this moment a NAME. */
int recording_add_marker(recording_t *r, const char *name);

/* The current time in shifted ticks, and nanoseconds since the start of the recording. */
uint64_t recording_now(const recording_t *r);
uint64_t recording_now_ns(const recording_t *r);

/* Appends SIZE bytes, whole chunks, to the file. False when that failed; errno tells. */
bool recording_append(recording_t *r, const void *data, uint32_t size);

/* The program has ended with WAIT_STATUS: appends the open chunks and finishes the header. Returns
 * 0, or a negative SONDE_E… when not all of it could be written; the header then tells. */
int recording_finish(recording_t *r, int wait_status);

/* Closes what recording_create opened. */
void recording_release(recording_t *r);

#endif
