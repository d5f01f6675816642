/* SPDX-License-Identifier: MIT
 *
 * Functions of the Mach kernel beyond os.h.
 */
#ifndef SONDE_OS_APPLE_THREAD_H
#define SONDE_OS_APPLE_THREAD_H

#include <sys/types.h>

#include "arch/arch.h"

/* Suspends the thread TID, calls LOOK with its registers, and resumes it. The thread may hold any
 * lock, so LOOK must not allocate, take a lock or wait for another thread. Returns -ESRCH when TID
 * does not exist or is the caller. */
int os_thread_stop(pid_t tid, void (*look)(const arch_frame_t *frame, void *context),
                   void *context);

/* Suspends and resumes every other thread, one after the other. */
void os_threads_interrupt(void);

/* A mark on the calling thread, kept in a pthread key, because the first use of a thread-local
 * variable would allocate. os_thread_marks creates the key once and returns false if that fails.
 * os_thread_enter sets the mark and returns false if the thread has it already. */
bool os_thread_marks(void);
bool os_thread_enter(void);
void os_thread_leave(void);

#endif
