/* SPDX-License-Identifier: MIT
 *
 * Opens recordings. The functions print an error on failure.
 */
#ifndef SONDE_CLI_COMMON_RECORDING_H
#define SONDE_CLI_COMMON_RECORDING_H

#include "report/report.h"

/* Opens the recording PATH; NULL: failed. */
reader_t *recording_open(const char *path);

/* Opens program PROGRAM of the recording (reader_open_program). */
reader_t *recording_open_program(const char *path, uint32_t program);

/* The option that selects a program of the recording; VERB says what happens to that program. */
#define RECORDING_PROGRAM_OPTION(key, verb)                                                        \
  {                                                                                                \
    key, "program", "N",                                                                           \
        "the program to " verb " if the process called exec: 1 is the first (default: the last)"   \
  }
#define RECORDING_PROGRAM_WRONG "--program takes a number from 1 up"
bool recording_program(const char *text, uint32_t *out);

/* As recording_open_program, but fails for a summary, which has no events. */
reader_t *recording_open_events(const char *path, uint32_t program);

/* Closes READER of the recording PATH. Says so if it met damage: a list of events does not show
 * that some are missing. READER may be NULL. */
void recording_close(reader_t *reader, const char *path);

/* Whether OUTPUT, which may be NULL, would replace the recording PATH; then prints an error. */
bool recording_is_output(const char *path, const char *output);

/* Opens REPORT's path into its reader and sets its styles for stdout. */
bool recording_open_report(report_t *report);

#endif
