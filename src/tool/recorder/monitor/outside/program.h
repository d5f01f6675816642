/* SPDX-License-Identifier: MIT
 *
 * Which program a process executes, for a recording from outside. Otherwise the agent records it.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_PROGRAM_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_PROGRAM_H

#include "recorder/monitor/writer.h"

/* Records the executable that the process of RECORDING has now, and the arguments of COMMAND; NULL:
 * those that it has now. A process that is just executing COMMAND has none yet. */
void program_write(monitor_writer_t *writer, const recording_t *recording, char *const *command);

/* The same, where neither a monitor nor the agent does it: of a static program whose system calls
 * alone are recorded. COMMAND is not NULL. */
void program_record(recording_t *recording, char *const *command);

#endif
