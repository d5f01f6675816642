/* SPDX-License-Identifier: MIT
 *
 * Functions that compilers left room in for a tracer, made to lead to it while calls are traced and
 * put back when they are not: XRay sleds (trace_sleds.c) and patchable entries (trace_entries.c).
 * Until then they are NOPs.
 */
#ifndef SONDE_SENSOR_TRACE_CODE_H
#define SONDE_SENSOR_TRACE_CODE_H

#include "hook/patch.h"
#include "image/list.h"

typedef struct code_result {
  uint32_t patched; /* sleds and entries that lead to the tracer now */
  uint32_t unnamed; /* functions left alone, since a pattern was given and they have no name */
  uint32_t refused; /* images whose code could not be written */
  uint32_t small;   /* functions whose room is too small, or not where it is looked for */
  const char *why;  /* nothing could be patched at all; NULL: see above */
} code_result_t;

/* Patches the functions that PATTERN (see sensor/trace/imports.h; "": all) names in the images that
 * are loaded now, or with ON false takes every patch back. Threads may run through the code
 * meanwhile. Takes a lock of its own; not in a signal handler. */
code_result_t code_switch(bool on, const char *pattern);

/* ---- for the two kinds, under the lock ------------------------------------------------------ */

/* Looks at a new image, whose FILE is open. False: it has not been relocated yet. */
void sleds_scan(const image_entry_t *entry, const image_t *file);
bool entries_scan(const image_entry_t *entry, const image_t *file, code_result_t *told);

void sleds_patch(const char *pattern, code_result_t *told);
void entries_patch(const char *pattern, code_result_t *told);
void sleds_unpatch(void);
void entries_unpatch(void);

/* The section NAME of FILE as it is mapped in the image, with an address at run time; false when
 * there is none with BYTES_MAX at most. */
bool code_section(const image_entry_t *entry, const image_t *file, const char *name,
                  uint64_t bytes_max, section_t *out);

/* Are the BYTES at run-time ADDRESS code of IMAGE? */
bool code_contains(const image_t *image, uint64_t address, uint64_t bytes);

/* Does PATTERN name the FUNCTION of image ID? One that has no name is counted as IS_ENTRY says. */
bool code_matches(image_id_t id, uint64_t function, const char *pattern, bool is_entry,
                  code_result_t *told);

#endif
