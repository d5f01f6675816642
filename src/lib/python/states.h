/* SPDX-License-Identifier: MIT
 *
 * The thread states (PyThreadState) of all interpreters of a process, and the threads they are of.
 *
 * The lists change while they are read, and every read may fail; a listing may miss a thread that
 * starts. Async-signal-safe if the memory_t is.
 */
#ifndef SONDE_PYTHON_STATES_H
#define SONDE_PYTHON_STATES_H

#include "python/find.h"
#include "unwind/machine.h"

/* Calls VISIT with the address of each thread state until it returns false. */
void python_states(const python_runtime_t *runtime, memory_t *memory,
                   bool (*visit)(void *context, uint64_t state), void *context);

/* What a state says of its thread. */
typedef struct python_thread {
  /* its id in its own namespace; 0: unknown */
  int32_t tid;
  /* the pthread_t, if the version does not state the id; else 0 */
  uint64_t handle;
} python_thread_t;

/* False: unreadable. */
bool python_thread_of(const python_layout_t *layout, memory_t *memory, uint64_t state,
                      python_thread_t *out);

/* Whether THREAD is TID. */
bool python_thread_is(const python_thread_t *thread, machine_t machine, memory_t *memory,
                      int32_t tid);

#endif
