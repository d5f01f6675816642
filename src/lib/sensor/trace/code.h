/* SPDX-License-Identifier: MIT
 *
 * Patches functions. Those that the compiler has prepared for a tracer are XRay sleds
 * (linux/sleds.c) and patchable entries (linux/entries.c): while tracing is on they lead to the
 * tracer; otherwise they contain NOPs. Others are patched if the pattern selects them
 * (linux/functions.c).
 */
#ifndef SONDE_SENSOR_TRACE_CODE_H
#define SONDE_SENSOR_TRACE_CODE_H

#include "hook/move.h"
#include "hook/patch.h"
#include "image/list.h"

typedef struct code_result {
  /* sleds and entries that now lead to the tracer */
  uint32_t patched;
  /* functions not patched because a pattern is set and they have no symbol */
  uint32_t unnamed;
  /* images whose code could not be written */
  uint32_t refused;
  /* functions whose NOPs are too few, or were not found */
  uint32_t small;
  /* why nothing could be patched; NULL: see above */
  const char *why;
  /* functions patched by moving their entries, since the last switch, and those that could not be
   * patched so, by reason */
  uint32_t moved, unmoved[MOVE_FAULT_COUNT];
} code_result_t;

/* With ON, patches the prepared functions that match PATTERN (sensor/trace/imports.h; "": all) and
 * the others that FUNCTIONS selects ("": none) in the loaded images; otherwise removes every patch.
 * Other threads may execute the code meanwhile. Takes a
 * lock; not for signal handlers. */
code_result_t code_switch(bool on, const char *pattern, const char *functions);

/* From now on the recorder changes code for which all threads must be stopped. */
void code_allow_stops(void);

/* True once code was patched: a thread may still be about to enter what the patches lead to. */
bool code_was_patched(void);

/* True if the code of IMAGE may be patched by moving its entries. */
bool code_may_be_patched(const image_entry_t *image);

/* The name by which a pattern selects CANDIDATE: its symbol, or "+0xOFFSET" in OUT. */
#define CODE_OFFSET_NAME 24u
struct entry_candidate;
const char *code_name_of(const struct entry_candidate *candidate, char *out);

/* ---- the kinds, under the lock ----------------------------------------------------------- */

/* Scan a new image, whose FILE is open. False: it is not relocated yet. */
void sleds_scan(const image_entry_t *entry, const image_t *file);
bool entries_scan(const image_entry_t *entry, const image_t *file, code_result_t *result);

void sleds_patch(const char *pattern, code_result_t *result);
void entries_patch(const char *pattern, code_result_t *result);
void functions_patch(const char *pattern, bool is_new, code_result_t *result);
void functions_unpatch(void);
/* A recording with PATTERN begins, maybe after another one in the same process. */
void functions_begin(const char *pattern);
void sleds_unpatch(void);
void entries_unpatch(void);

/* The section NAME of FILE, with its run-time address; false if there is none of at most BYTES_MAX
 * bytes. */
bool code_section(const image_entry_t *entry, const image_t *file, const char *name,
                  uint64_t bytes_max, section_t *out);

/* True if the BYTES at run-time ADDRESS are code of IMAGE. */
bool code_contains(const image_t *image, uint64_t address, uint64_t bytes);

/* True if the FUNCTION of image ID matches PATTERN. A function without a symbol is counted if
 * IS_ENTRY. */
bool code_matches(image_id_t id, uint64_t function, const char *pattern, bool is_entry,
                  code_result_t *result);

#endif
