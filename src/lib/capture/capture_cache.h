/* SPDX-License-Identifier: MIT
 *
 * Stacks of blocked threads and where they start, saved for the next passive capture (see
 * capture/passive_capture.h).
 *
 * Any thread may call these functions, in a signal handler too. They never wait: if another thread
 * has locked an entry, they skip it.
 */
#ifndef SONDE_CAPTURE_CAPTURE_CACHE_H
#define SONDE_CAPTURE_CAPTURE_CACHE_H

#include <stdbool.h>

#include "sonde/stack.h"

/* A saved stack is reused only if all four fields are equal. */
typedef struct capture_cache_key {
  pid_t tid;
  uint64_t identity; /* From os_threads. */
  int64_t progress;  /* From os_thread_progress. */
  uint64_t epoch;    /* The loader's. */
} capture_cache_key_t;

/* Where the walk of a blocked thread starts, and what it read. */
typedef struct capture_place {
  uint64_t pc, sp;
  uint64_t end;   /* The walk read the stack from SP to here. */
  uint64_t below; /* A hash of the words below SP. */
  uint64_t fp;    /* Valid if HAS_FP: the frame register, which was inferred. */
  bool has_fp;
} capture_place_t;

/* Sets *PLACE to the start of the stack saved under KEY. Returns false if no stack is saved. */
bool capture_cache_find(const capture_cache_key_t *key, capture_place_t *place);

/* Returns true if CAPTURE, which was walked anew from PLACE, is the stack saved under KEY. Else
 * removes the saved stack: its thread has run. */
bool capture_cache_confirm(const capture_cache_key_t *key, const capture_place_t *place,
                           const sonde_capture_t *capture);

/* Saves CAPTURE and PLACE under KEY if the stack is complete, starts at the innermost frame and is
 * not too deep. */
void capture_cache_store(const capture_cache_key_t *key, const capture_place_t *place,
                         const sonde_capture_t *capture);

#endif
