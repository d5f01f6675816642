/* SPDX-License-Identifier: MIT
 *
 * Writes a monitor's events and stacks to the recording while the program runs.
 *
 * A writer's stream and its ids of images, frames and nodes are in the upper half of their ranges,
 * which the program does not reach; each writer has a part of it. So a reader need not know that
 * there are several writers. A chunk is appended like the program's: one atomic addition reserves
 * its place at the end of the file.
 *
 * One thread uses a writer.
 */
#ifndef SONDE_RECORDER_MONITOR_WRITER_H
#define SONDE_RECORDER_MONITOR_WRITER_H

#include "recorder/recording_file.h"
#include "target/target.h"

typedef struct monitor_writer monitor_writer_t;

/* A writer of STREAM: MONITOR_STREAM or one of the next seven, each used once. NULL: out of memory.
 * RECORDING must stay valid until monitor_writer_free. */
monitor_writer_t *monitor_writer_new(recording_t *recording, uint32_t stream);
void monitor_writer_free(monitor_writer_t *writer);

/* The current time in the unit of events. */
uint64_t monitor_writer_now(const monitor_writer_t *writer);

/* TIME_NS of CLOCK_MONOTONIC, which has passed, in that unit. */
uint64_t monitor_writer_ticks(const monitor_writer_t *writer, uint64_t time_ns);

/* The id of THREAD's stack, which was read from TARGET; 0 if it has no frames or memory runs out.
 */
uint32_t monitor_writer_stack(monitor_writer_t *writer, target_t *target, const thread_t *thread);

/* An event: begin, its fields in order, end. */
void monitor_writer_begin(monitor_writer_t *writer, uint8_t subtype);
void monitor_writer_value(monitor_writer_t *writer, uint64_t value);
void monitor_writer_text(monitor_writer_t *writer, const char *text);
void monitor_writer_bytes(monitor_writer_t *writer, const void *data, size_t size);
/* Without its size. Returns how many of the SIZE bytes fit. */
size_t monitor_writer_raw(monitor_writer_t *writer, const void *data, size_t size);
void monitor_writer_end(monitor_writer_t *writer);

/* Ends what monitor_writer_begin began as a record of a table instead of an event. */
void monitor_writer_define(monitor_writer_t *writer, table_type_t type);

/* A stream of CPU samples of one thread of the program, beside those that the thread writes. Valid
 * until monitor_writer_free; NULL: out of memory. */
typedef struct monitor_stream monitor_stream_t;
monitor_stream_t *monitor_writer_stream(monitor_writer_t *writer, pid_t tid, const char *name);

/* A sample with the id of its STACK at TIME_NS of CLOCK_MONOTONIC, which also counts for the MISSED
 * ticks before it. */
void monitor_stream_sample(monitor_writer_t *writer, monitor_stream_t *stream, uint64_t time_ns,
                           uint64_t missed, uint32_t stack);

/* Writes all events so far to the file; false if that fails. */
bool monitor_writer_flush(monitor_writer_t *writer);

#endif
