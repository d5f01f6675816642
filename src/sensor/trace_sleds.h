/* SPDX-License-Identifier: MIT
 *
 * XRay sleds: room that clang -fxray-instrument leaves at the start and the ends of functions, and
 * a map of it (section xray_instr_map). sonde patches them itself; the program need not be linked
 * with compiler-rt. Unpatched, a sled is a jump over a NOP, or a return.
 */
#ifndef SONDE_SENSOR_TRACE_SLEDS_H
#define SONDE_SENSOR_TRACE_SLEDS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sleds_told {
  uint32_t patched; /* sleds that lead to the tracer now */
  uint32_t unnamed; /* functions left alone, since a pattern was given and they have no name */
  uint32_t refused; /* images whose code could not be written */
  const char *why;  /* nothing could be patched at all; NULL: see above */
} sleds_told_t;

/* Patches the sleds of the functions that PATTERN (see sensor/imports.h; "": all) names in the
 * images that are loaded now, or with ON false takes every patch back. Threads may run through the
 * code meanwhile. Takes a lock of its own; not in a signal handler. */
sleds_told_t sleds_switch(bool on, const char *pattern);

#endif
