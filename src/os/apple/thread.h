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

#endif
