/* SPDX-License-Identifier: MIT
 *
 * What the recorder itself adds to a recording while the program runs: records of what it saw from
 * outside, and the stacks it read there.
 *
 * Its stream, and its ids of images, frames and nodes, are from the upper half of the numbers,
 * which the program does not reach, each stream having a part of it; so a reader needs to know
 * nothing of two writers. Chunks are appended in the same way as the program's: by taking a place
 * at the end of the file with one atomic addition.
 *
 * Used by one thread.
 */
#ifndef SONDE_RECORDER_MONITOR_WRITER_H
#define SONDE_RECORDER_MONITOR_WRITER_H

#include "recorder/recording_file.h"
#include "target/target.h"

typedef struct writer monitor_writer_t;

/* Of the stream STREAM, MONITOR_STREAM or one of the seven after it, which is nobody else's. NULL
 * without memory. The recording must outlive it. */
monitor_writer_t *monitor_writer_new(recording_t *recording, uint32_t stream);
void monitor_writer_free(monitor_writer_t *writer);

/* The time as events carry it. */
uint64_t monitor_writer_now(const monitor_writer_t *writer);

/* The id of a stack that was read from TARGET; 0 when it has no frames or there is no memory. */
uint32_t monitor_writer_stack(monitor_writer_t *writer, target_t *target, const thread_t *thread);

/* One record: begun, its fields put in order, ended. */
void monitor_writer_begin(monitor_writer_t *writer, uint8_t subtype);
void monitor_writer_value(monitor_writer_t *writer, uint64_t value);
void monitor_writer_text(monitor_writer_t *writer, const char *text);
void monitor_writer_bytes(monitor_writer_t *writer, const void *data, size_t size);
void monitor_writer_end(monitor_writer_t *writer);

/* Writes what was recorded so far into the file. False when it cannot be written. */
bool monitor_writer_flush(monitor_writer_t *writer);

#endif
