/* SPDX-License-Identifier: MIT
 *
 * The recorder's side of a recording: creates the file and the buffers that it shares with the
 * program, writes the recorder's own events, and appends the open chunks when the program has
 * ended, also when it was killed.
 *
 * The main thread of the recorder uses these functions. Monitors use recording_append and
 * recording_now from their own threads.
 */
#ifndef SONDE_RECORDER_RECORDING_FILE_H
#define SONDE_RECORDER_RECORDING_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "record/format.h"
#include "record/shm.h"

typedef struct recording {
  int file_fd, shm_fd;
  /* the shared buffers, mapped */
  shm_control_t *control;
  record_header_t header;
  /* the table of live blocks */
  int live_fd;
  /* of the recorder's own stream */
  uint32_t sequence, exec_index;
  /* since the start; the interval doubles */
  uint64_t next_checkpoint_ns, checkpoint_after_ns;
  /* recording stops when the file system has less free; RECORDING_KEEP_DEFAULT; 0: never */
  uint64_t keep_free_bytes;
  /* While a program without the agent is recorded after others (monitor/outside/agentless.h): its
   * number and its RECORD_… bits. 0: the agent counts the programs. */
  uint32_t agentless_program, agentless_mode;
} recording_t;

/* The program that the recorder's records belong to; 0: none has begun. */
static inline uint32_t recording_current_program(const recording_t *r) {
  uint32_t agentless = load_acquire(&r->agentless_program);
  return agentless ? agentless : load_acquire(&r->control->exec_index);
}

/* The part of MODE that is recorded of that program. */
static inline uint32_t recording_applied_mode(const recording_t *r, uint32_t mode) {
  return load_acquire(&r->agentless_program) ? mode & r->agentless_mode : mode;
}

/* Half a gigabyte, but at most 2 % of a file system. */
#define RECORDING_KEEP_DEFAULT UINT64_MAX

/* Creates the recording PATH, which must not exist, of process PID, and its shared buffers. MODE
 * has RECORD_… bits. SAMPLE_BYTES is the rate of RECORD_SAMPLED_BLOCKS. With LIMIT_BYTES, the file
 * keeps the newest events within that size; 0: no limit. On failure returns a negative SONDE_E…,
 * removes the file and writes one line to ERROR. */
int recording_create(recording_t *r, const char *path, uint32_t pid, uint32_t mode,
                     uint64_t sample_bytes, uint64_t limit_bytes, char *error, size_t error_size);

/* As recording_create, in the empty file FD, which the recording owns from here on. PATH appears in
 * ERROR; the file is never removed. */
int recording_create_in(recording_t *r, int fd, const char *path, uint32_t pid, uint32_t mode,
                        uint64_t sample_bytes, uint64_t limit_bytes, char *error,
                        size_t error_size);

/* Writes the settings that the agent gets in SONDE_RECORD. */
void recording_settings(const recording_t *r, char *out, size_t size);

/* Updates the clock calibration and the counters in the header, about every second, so that a
 * recording has correct times even if its recorder is killed. */
void recording_refresh(recording_t *r);

/* ---- the recorder's own records (events.c); 0 or a negative SONDE_E… ---------------------- */

/* Changes the mode to MODE (RECORD_…). If this ends the mode `live`, a snapshot of the live blocks
 * is written first. SAMPLE_BYTES as for recording_create. */
int recording_set_mode(recording_t *r, uint32_t mode, uint64_t sample_bytes);

/* Switches the tracing of calls on or off. Instrumented code reads this setting at each call. */
void recording_set_tracing(recording_t *r, bool on);

/* In mode `live`: writes the blocks that are live now; *BLOCKS is their count. SONDE_EINVAL in
 * other modes, which record every event. */
int recording_snapshot(recording_t *r, snapshot_reason_t reason, uint64_t *blocks);

/* recording_copy_live copies the table of live blocks and returns its descriptor, or SONDE_ENOMEM.
 * recording_copy_live must be fast, because the program is paused meanwhile.
 * recording_snapshot_of_copy writes a snapshot from the copy; TIME is when it was made. */
int recording_copy_live(const recording_t *r);
int recording_snapshot_of_copy(recording_t *r, int fd, uint64_t time);

/* If mappings are recorded: writes the current ones. */
int recording_checkpoint(recording_t *r);

/* Ends the recording, after recording_set_mode to 0. Open chunks are appended by recording_finish.
 */
void recording_stop(recording_t *r);

/* Records a marker NAME with the current time. */
int recording_add_marker(recording_t *r, const char *name);

/* Records a process of the run. Times count from the start of the recording; END_NS 0: it still
 * ran. FILE is its recording; "": it is not recorded, for the reason WHY. */
typedef struct recorded_process {
  uint64_t pid, parent, start_ns, end_ns, cpu_ns;
  const char *command, *file, *why;
} recorded_process_t;
int recording_add_process(recording_t *r, const recorded_process_t *process);

/* Records that the program had children, which are not followed, with the CPU time of the program
 * and of the children that it has waited for. */
int recording_add_children(recording_t *r, uint64_t own_cpu_ns, uint64_t children_cpu_ns);

/* An extended record of SUBTYPE whose fields are the COUNT numbers, at most 1000. */
int recording_add_numbers(recording_t *r, extended_subtype_t subtype, const uint64_t *numbers,
                          size_t count);

/* The current time in shifted ticks, and nanoseconds since the start of the recording. */
uint64_t recording_now(const recording_t *r);
uint64_t recording_now_ns(const recording_t *r);

/* Appends complete chunks of SIZE bytes in all to the file. Any thread. False with errno. */
bool recording_append(recording_t *r, const void *data, uint32_t size);

/* After the program ended with WAIT_STATUS: appends the open chunks and finishes the header.
 * Returns 0, or a negative SONDE_E… if not all data could be written; the header has the reason. */
int recording_finish(recording_t *r, int wait_status);

/* Releases the descriptors and mappings of recording_create. */
void recording_release(recording_t *r);

#endif
