/* SPDX-License-Identifier: MIT
 *
 * The locks that a stalled thread waited for: the one of now, and the one of the longest wait. The
 * last poll before a stall's end often finds the thread after its wait, when it waits for no lock.
 */
#ifndef SONDE_SENSOR_STALL_STALL_LOCKS_H
#define SONDE_SENSOR_STALL_STALL_LOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct stall_lock {
  uint64_t address; /* 0: none */
  pid_t owner;      /* 0: unknown */
  bool deadlock;    /* the owner waits for the thread */
  uint64_t waited_ns;
} stall_lock_t;

/* All zero: no lock yet. */
typedef struct stall_locks {
  /* at the last poll */
  stall_lock_t current;
  /* of the wait without another lock between its polls; the later one of two equal waits. Owner and
   * deadlock are those of the wait's last poll, an unknown owner aside. */
  stall_lock_t longest;
  /* the wait that may become the longest */
  stall_lock_t latest;
} stall_locks_t;

/* Adds a poll that found the thread waiting for SEEN (address 0: for no lock), and that represents
 * SEEN->waited_ns. */
void stall_locks_add(stall_locks_t *locks, const stall_lock_t *seen);

#endif
