/* SPDX-License-Identifier: MIT
 *
 * The threads that the recorder signaled to lead a search for leaks, with the system calls that
 * blocked them, in the shared buffers.
 *
 * The signal ends the call, so the thread's handler must resume it. On a busy machine the handler
 * may run long after another thread has led the search. So an entry stays until the handler has
 * taken it or the thread has ended.
 */
#ifndef SONDE_RECORD_SHARED_ASKED_H
#define SONDE_RECORD_SHARED_ASKED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"
#include "os/os.h"

#define SHM_ASKED 16u

typedef struct shm_asked {
  uint32_t tid;   /* as the program sees it; 0: a free entry; written last */
  uint32_t outer; /* as the recorder sees it */
  os_blocked_t at;
} shm_asked_t;

/* Removes the entry of TID from the SHM_ASKED entries of TABLE; false if there is none. */
static inline bool shm_take_asked(shm_asked_t *table, uint32_t tid, os_blocked_t *at) {
  for (uint32_t i = 0; i < SHM_ASKED; i++) {
    uint32_t old = tid;
    if (load_acquire(&table[i].tid) != tid) continue;
    *at = table[i].at;
    if (cas_acq_rel(&table[i].tid, &old, 0u)) return true;
  }
  return false;
}

#endif
