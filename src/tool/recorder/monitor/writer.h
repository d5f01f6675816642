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

typedef struct journal journal_t;

/* Of the stream STREAM, MONITOR_STREAM or one of the seven after it, which is nobody else's. NULL
 * without memory. The recording must outlive it. */
journal_t *journal_new(recording_t *recording, uint32_t stream);
void journal_free(journal_t *journal);

/* The time as events carry it. */
uint64_t journal_now(const journal_t *journal);

/* The id of a stack that was read from TARGET; 0 when it has no frames or there is no memory. */
uint32_t journal_stack(journal_t *journal, target_t *target, const thread_t *thread);

/* One record: begun, its fields put in order, ended. */
void journal_begin(journal_t *journal, uint8_t subtype);
void journal_value(journal_t *journal, uint64_t value);
void journal_text(journal_t *journal, const char *text);
void journal_bytes(journal_t *journal, const void *data, size_t size);
void journal_end(journal_t *journal);

/* Writes what was recorded so far into the file. False when it cannot be written. */
bool journal_flush(journal_t *journal);

#endif
