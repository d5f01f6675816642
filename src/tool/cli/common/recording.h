/* SPDX-License-Identifier: MIT
 *
 * Opening a recording, which is what most verbs begin with. What goes wrong has been said when
 * these return.
 */
#ifndef SONDE_CLI_COMMON_RECORDING_H
#define SONDE_CLI_COMMON_RECORDING_H

#include "report/report.h"

/* The recording PATH, or NULL. */
reader_t *recording_open(const char *path);

/* The same of one of the programs of its process (reader_open_program). */
reader_t *recording_open_program(const char *path, uint32_t program);

/* The option that names one, in words of the verb's own behind these, and its value. */
#define RECORDING_PROGRAM_OPTION(key, more)                                                        \
  {                                                                                                \
    key, "program", "N",                                                                           \
        "of a process that ran several programs in turn (exec): " more                             \
        "this\none, 1 is the first, in "                                                           \
        "place of the last"                                                                        \
  }
#define RECORDING_PROGRAM_WRONG "--program takes a number from 1 up"
bool recording_program(const char *text, uint32_t *out);

/* The same as recording_open_program, unless it is a summary, which holds no events. */
reader_t *recording_open_events(const char *path, uint32_t program);

/* Opens REPORT's path into its reader, and makes it ready to print to stdout. */
bool recording_open_report(report_t *report);

#endif
