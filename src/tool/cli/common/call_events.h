/* SPDX-License-Identifier: MIT
 *
 * The traced calls of a recording as lines of `sonde events`: a call and a return each, of all
 * threads in order of time.
 */
#ifndef SONDE_CLI_COMMON_CALL_EVENTS_H
#define SONDE_CLI_COMMON_CALL_EVENTS_H

#include "reader/calls.h"

typedef struct call_events call_events_t;

/* NULL: out of memory. Close it before READER. */
call_events_t *call_events_open(reader_t *reader);

/* Prints the calls and returns before NS, in nanoseconds since the start of the recording, that
 * were not printed yet. */
void call_events_print(call_events_t *events, double ns);
void call_events_close(call_events_t *events);

#endif
