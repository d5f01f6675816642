/* SPDX-License-Identifier: MIT
 *
 * Markers: times that the program or the user named (sonde_mark, 'sonde ctl PID mark').
 */
#ifndef SONDE_ANALYSIS_MARKERS_H
#define SONDE_ANALYSIS_MARKERS_H

#include "reader/reader.h"

/* Returns whether EVENT is a marker with the name NAME. */
bool marker_is(const record_event_t *event, const char *name);

/* Sets *NS to the time of the first marker NAME, in nanoseconds since the start. Reads all events
 * before it. 0, SONDE_ENOTFOUND when there is no such marker, or SONDE_ENOMEM. */
int marker_find(reader_t *reader, const char *name, uint64_t *ns);

#endif
