/* SPDX-License-Identifier: MIT
 *
 * Stacks of blocked threads, saved for the next passive capture (see capture/passive_capture.h).
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

/* Fills CAPTURE's pcs, count, status, reason and flags from the stack saved under KEY. Returns
 * false if no stack is saved. */
bool capture_cache_find(const capture_cache_key_t *key, sonde_capture_t *capture);

/* Saves CAPTURE under KEY if the stack is complete, starts at the innermost frame and is not too
 * deep. */
void capture_cache_store(const capture_cache_key_t *key, const sonde_capture_t *capture);

#endif
