/* SPDX-License-Identifier: MIT
 *
 * The global interpreter lock (GIL): which thread state holds it, and who waits for it.
 *
 * Facts: CPython, Include/internal/pycore_gil.h and Python/ceval_gil.c (to 3.11 ceval_gil.h). The
 * layout of the lock is the same from 3.8 to 3.15. To 3.11 its holder notes its thread state in
 * _PyRuntime as long as it has the lock. Later the lock has only the state that took it last, and a
 * mutex protects the change of holders: a reader believes what it read twice while the mutex was
 * free. Threads wait at a condition
 * variable, for 5 ms at a time. glibc's condition variables wait at a word within them; those of
 * musl do not, and waits there are not recognized.
 *
 * Async-signal-safe if the memory_t is.
 */
#ifndef SONDE_PYTHON_GIL_H
#define SONDE_PYTHON_GIL_H

#include "python/find.h"

typedef struct python_gil {
  /* the thread state that holds it; 0: none, or it changes */
  uint64_t holder;
  /* how often another thread state took it */
  uint64_t switches;
} python_gil_t;

/* The address of the lock of thread state STATE; 0: unreadable. */
uint64_t python_gil_of(const python_runtime_t *runtime, memory_t *memory, uint64_t state);

/* Reads the lock of RUNTIME at ADDRESS. False: unreadable, or it changes again and again. */
bool python_gil_read(const python_runtime_t *runtime, memory_t *memory, uint64_t address,
                     python_gil_t *out);

/* Whether a thread that waits at FUTEX waits for the lock at ADDRESS. */
bool python_gil_is_at(uint64_t address, uint64_t futex);

#endif
