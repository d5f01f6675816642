/* SPDX-License-Identifier: MIT
 *
 * Reads a recording in parts while it is written: each reader sees the events that the one before
 * did not. So a consumer that runs beside a recorder needs memory and time for what is new, and for
 * the tables, but not for the length of the recording.
 *
 * The place that was reached is kept for each stream, as a number of events of a chunk. Times
 * cannot define it: a thread may be interrupted between reading the clock and writing the event.
 *
 * One thread uses a resume_t.
 */
#ifndef SONDE_READER_RESUME_H
#define SONDE_READER_RESUME_H

#include "reader/reader.h"

typedef struct resume resume_t;

/* For program number PROGRAM of the process; 0: the last one. NULL: out of memory. */
resume_t *resume_new(uint32_t program);
void resume_free(resume_t *resume);

/* Opens the recording PATH without the events up to RESUME, which must outlive the reader. Records
 * of calls are left out. Otherwise as reader_open. */
int resume_open(reader_t **out, const char *path, resume_t *resume, char *error, size_t error_size);

/* Moves RESUME behind the events of the last merge of READER, which must have come to its end.
 * False: out of memory; RESUME is as it was. */
bool resume_advance(resume_t *resume, const reader_t *reader);

/* Remembers the COUNT functions of FRAME of an image, innermost first, so that next readers have
 * them as if they were recorded: to look them up each time would cost more than all the rest. A
 * frame without a name has a function "". False: out of memory. */
bool resume_name_frame(resume_t *resume, const record_frame_t *frame,
                       const record_function_t *functions, int count);

/* Gives these names to FRAMES that have none. A reader does it when it is opened. */
void resume_name_frames(const resume_t *resume, record_frame_t *frames, size_t count);

/* The next program of READER's process that has data; 0: there is none yet. */
uint32_t resume_next_program(const reader_t *reader);

/* The recorded id of a stack of READER, which may have given it another one for its events
 * (code_names.c). Ids of two readers of one recording are equal only if they were recorded. */
uint32_t resume_recorded_stack(const reader_t *reader, uint32_t stack);

#endif
