/* SPDX-License-Identifier: MIT
 *
 * Writes the names of generated code into the recording: those codes of the program's perf map or
 * jitdump file, or registered with GDB's JIT interface, that contain a pc of a recorded stack.
 *
 * A thread of the recorder reads what the file and the lists have got, five times a second, and
 * once a second in a long recording without generated code. It starts when a stack has a frame
 * without an image. If a later code takes an address, both are recorded, with the time of each. A
 * name is in the recording soon after its stack. At the end of the recording the file is read once
 * more: virtual machines may write it at their end.
 *
 * Memory: JIT_BYTES_MAX for the file's codes; CODE_NAMES_BYTES_MAX in the recording.
 */
#ifndef SONDE_RECORDER_MONITOR_CODE_NAMES_H
#define SONDE_RECORDER_MONITOR_CODE_NAMES_H

#include "recorder/recording_file.h"

#define CODE_NAMES_BYTES_MAX ((uint64_t)64 << 20)

typedef struct code_names code_names_t;

/* NULL: out of memory. */
code_names_t *code_names_new(recording_t *recording);

/* Starts the thread. Without it, code_names_stop reads the names. NAMES may be NULL. */
void code_names_run(code_names_t *names);

/* Before recording_finish. PRINT, if it is not NULL, gets a line about names that are missing. */
void code_names_stop(code_names_t *names, void (*print)(const char *line));

#endif
