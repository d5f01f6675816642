/* SPDX-License-Identifier: MIT
 *
 * Moments that a program, or someone from outside, gave a name.
 */
#ifndef SONDE_ANALYSIS_MARKERS_H
#define SONDE_ANALYSIS_MARKERS_H

#include "reader/reader.h"

/* Whether EVENT is a mark called NAME. */
bool marker_is(const record_event_t *event, const char *name);

/* When the first mark called NAME was made, in ns since the start. A pass over the events up to it.
 * 0, SONDE_ENOTFOUND when there is none, or SONDE_ENOMEM. */
int marker_find(reader_t *reader, const char *name, uint64_t *ns);

#endif
