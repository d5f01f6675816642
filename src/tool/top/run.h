/* SPDX-License-Identifier: MIT
 *
 * The command of `sonde top -- CMD`: a recorder (recorder/recorder.h) in a process of its own,
 * which runs the command with the agent. The terminal belongs to top, so the command reads from
 * /dev/null, and what it writes is kept in a file without a name until top ends.
 */
#ifndef SONDE_TOP_RUN_H
#define SONDE_TOP_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct top_run {
  pid_t recorder, program;
  FILE *output;            /* what the command wrote */
  char folder[PATH_MAX];   /* of a recording that is removed at the end; "": it is kept */
  char path[PATH_MAX + 8]; /* the recording */
  int status;              /* of the recorder, when it has ended */
  bool has_ended;
} top_run_t;

/* Starts COMMAND and records it to OUTPUT; NULL: to a file that top_run_end removes. Prints errors.
 * Call it before any other thread exists. */
bool top_run_start(top_run_t *run, char **command, const char *output);

/* Writes how the command ended to OUT; false: it still runs. */
bool top_run_ended(top_run_t *run, char *out, size_t size);

/* CPU time of the recorder so far. */
uint64_t top_run_cpu_ns(const top_run_t *run);

/* Ends the command by SIGTERM if it runs, waits for the recorder, prints the end of what the
 * command wrote to stderr, and removes the recording unless it is to be kept. */
void top_run_end(top_run_t *run);

#endif
