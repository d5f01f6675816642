/* SPDX-License-Identifier: MIT
 *
 * Stacks of blocked threads, kept for the next look at them (see blocked.h). Any thread, in a
 * signal handler too; nobody waits: an entry that somebody else is at is passed over.
 */
#ifndef SONDE_CAPTURE_CAPTURE_CACHE_H
#define SONDE_CAPTURE_CAPTURE_CACHE_H

#include <stdbool.h>

#include "sonde/stack.h"

/* Who was where: a stack is given again only when all of it is the same. */
typedef struct capture_cache_key {
  pid_t tid;
  uint64_t identity; /* of os_threads */
  int64_t progress;  /* of os_thread_progress */
  uint64_t epoch;    /* of the loader */
} capture_cache_key_t;

/* Fills CAPTURE's pcs, count, mark, reason and flags from what is kept under KEY. */
bool capture_cache_find(const capture_cache_key_t *key, sonde_capture_t *capture);

/* Keeps CAPTURE, if it is a whole stack, complete and not too deep. */
void capture_cache_store(const capture_cache_key_t *key, const sonde_capture_t *capture);

#endif
