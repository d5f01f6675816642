/* SPDX-License-Identifier: MIT
 *
 * What the recorder prints about a recording: data that it lacks, and where it is. One message a
 * line on stderr.
 */
#ifndef SONDE_RECORDER_NOTES_H
#define SONDE_RECORDER_NOTES_H

#include "recorder/processes.h"
#include "recorder/recording_file.h"

/* Before a program is recorded: that a limit on address space leaves it little. */
void notes_of_address_space(void);

/* Programs that are missing: what an emulator runs, what replaced the program and did not load the
 * agent, which is LAST (NULL: unknown), unless it IS_LISTED among the processes that are not
 * recorded; and blocks of an allocator in the executable. */
void notes_of_programs(const shm_control_t *control, bool is_listed, const process_row_t *last);

/* Why system calls cannot be traced, with ERROR of the attempt. IS_OPTION: --coverage requested it.
 */
void notes_of_refused_tracing(int error, bool is_option);

/* After a command without --follow: that its children are missing, if they used much CPU time, or
 * if calls are audited. Children whose program is TRACED cannot be followed. */
void notes_of_children(bool is_audit, bool traced, uint64_t own_cpu_ns, uint64_t children_cpu_ns);

/* Functions that --trace could not trace. */
void notes_of_trace(const shm_control_t *control);

/* After recording_finish, which returned FINISHED: why it ended early, its PATH, lost events.
 * IS_LISTED and LAST as above. Returns false if the file is no longer at PATH. */
bool notes_of_recording(const recording_t *recording, const char *path, int finished,
                        bool is_listed, const process_row_t *last);

/* Prints once that the file has BYTES after NS, when that is much and no limit bounds it, and again
 * whenever it is four times as large. *NOTED begins as 0. */
void notes_of_size(const shm_control_t *control, uint64_t ns, uint64_t *noted);

/* Shows on a terminal that the command has been recorded for NS, into a file of BYTES so far. The
 * command shares the terminal, and what it prints must stay readable. So the text is shown only if
 * standard output is elsewhere, below the line that the cursor is in. Returns true if it was. */
bool notes_status(uint64_t ns, uint64_t bytes);

/* Removes that text. */
void notes_status_end(void);

#endif
