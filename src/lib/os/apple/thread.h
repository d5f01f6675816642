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

/* As os_thread_stop, with the system call that the thread is in, instead of its registers. NUMBER
 * is negative if it is in none. */
typedef struct os_call {
  int64_t number;
  uint64_t arguments[4];
} os_call_t;
int os_thread_call(pid_t tid, os_call_t *out);

/* Returns the tid of the living thread with the pthread_t HANDLE, which may be any number; -ESRCH
 * if there is none. Takes libpthread's lock. */
pid_t os_thread_of_living_handle(uint64_t handle);

/* Returns the address at which the thread TID has the address of its Swift task; 0 if unknown. */
uint64_t os_swift_task_slot(pid_t tid);
/* Returns the id of the task in such a SLOT; 0 if there is none. Calls only the kernel. */
uint64_t os_swift_task_in(uint64_t slot);

/* Suspends and resumes every other thread, one after the other. */
void os_threads_interrupt(void);

/* A mark on the calling thread, kept in a pthread key, because the first use of a thread-local
 * variable would allocate. os_thread_marks creates the key once and returns false if that fails.
 * os_thread_enter sets the mark and returns false if the thread has it already. */
bool os_thread_marks(void);
bool os_thread_enter(void);
void os_thread_leave(void);

#endif
