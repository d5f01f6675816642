/* SPDX-License-Identifier: MIT
 *
 * Names for the frames of a store, whenever files with names are there: devices send addresses.
 *
 * The files of an image are found by its build-id. Several threads look images up, each with its
 * own symbolizer; one at a time uses the database. The names of an image are one transaction, so
 * the work continues after an interruption.
 */
#ifndef SONDE_STORE_SYMBOLIZE_H
#define SONDE_STORE_SYMBOLIZE_H

#include "store/engine.h"
#include "symbol/symbol.h"

typedef struct symbolize_options {
  const char *const *debug_dirs, *const *sysroots; /* as in symbol_options_t */
  bool again;                                      /* also frames that have names */
  unsigned threads;                                /* at least 1 */
} symbolize_options_t;

typedef struct symbolize_counts {
  uint64_t images;    /* that have frames to name */
  uint64_t addresses; /* looked up */
  uint64_t named;     /* that got a function */
} symbolize_counts_t;

/* Names frames and updates the signatures of their stacks. 0; SONDE_ENOMEM; SONDE_EIO: the database
 * failed. */
int store_symbolize(engine_t *engine, const symbolize_options_t *options, symbolize_counts_t *out);

#endif
