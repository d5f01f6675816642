/* SPDX-License-Identifier: MIT
 *
 * What the Mach kernel offers beyond os.h.
 */
#ifndef SONDE_OS_APPLE_THREAD_H
#define SONDE_OS_APPLE_THREAD_H

#include <sys/types.h>

#include "arch/arch.h"

/* Calls LOOK with the registers of the thread TID, which stands still meanwhile and may hold any
 * lock: LOOK may not allocate, lock or ask another thread. -ESRCH when there is no such thread, or
 * it is the caller. */
int os_thread_stop(pid_t tid, void (*look)(const arch_frame_t *frame, void *context),
                   void *context);

/* Suspends and resumes every other thread, one after the other. */
void os_threads_interrupt(void);

/* A mark on the calling thread that needs no variable of its own, whose first use would allocate:
 * by a pthread key. os_thread_marks makes it, once, and is false when there is none to be had;
 * os_thread_enter is false when the thread has the mark already. */
bool os_thread_marks(void);
bool os_thread_enter(void);
void os_thread_leave(void);

#endif
