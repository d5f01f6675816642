/* SPDX-License-Identifier: MIT
 *
 * Which program a process executes, for a recording from outside. Otherwise the agent records it.
 */
#ifndef SONDE_RECORDER_MONITOR_OUTSIDE_PROGRAM_H
#define SONDE_RECORDER_MONITOR_OUTSIDE_PROGRAM_H

#include "recorder/monitor/writer.h"

/* Records the executable and the arguments that the process of RECORDING has now. */
void program_write(monitor_writer_t *writer, const recording_t *recording);

#endif
