/* SPDX-License-Identifier: MIT
 *
 * The program counters of frames that are in no image: mostly code that a JIT compiler generated.
 * Whoever defines such a frame adds its pc; the recorder looks up their names while it still can
 * (recorder/monitor/code_names.h). So the recording needs the names of these codes alone.
 *
 * Any thread adds, also in a signal handler. A place is taken by one atomic addition and then
 * filled, so a reader may still find 0 in the last places.
 */
#ifndef SONDE_RECORD_SHARED_CODE_H
#define SONDE_RECORD_SHARED_CODE_H

#include "base/bits.h"

#define SHM_CODE_MAX 65536u

typedef struct shm_code {
  /* may exceed SHM_CODE_MAX */
  uint32_t count;
  uint64_t pcs[SHM_CODE_MAX];
} shm_code_t;

/* A frame of a Python function has no image either; the upper 16 bits of an address are 0. The
 * first page is never code: it stands for what is missing in a stack. */
static inline void shm_code_add(shm_code_t *code, uint64_t pc) {
  if (pc >> 48 || pc < 4096) return;
  uint32_t place = __atomic_fetch_add(&code->count, 1, __ATOMIC_RELAXED);
  if (place < SHM_CODE_MAX)
    store_release(&code->pcs[place], pc);
  else
    store_relaxed(&code->count, SHM_CODE_MAX + 1);
}

#endif
