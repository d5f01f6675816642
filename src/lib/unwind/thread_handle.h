/* SPDX-License-Identifier: MIT
 *
 * The thread that a pthread_t stands for. Async-signal-safe if the memory_t is.
 */
#ifndef SONDE_UNWIND_THREAD_HANDLE_H
#define SONDE_UNWIND_THREAD_HANDLE_H

#include "unwind/machine.h"
#include "unwind/memory.h"

/* Whether HANDLE, a pthread_t in MEMORY, is of thread TID. */
bool thread_handle_is(uint64_t handle, machine_t machine, memory_t *memory, int32_t tid);

#endif
