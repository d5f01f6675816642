/* SPDX-License-Identifier: MIT
 *
 * What a thread waits for: its system call in words, the lock and who holds it, cycles of owners.
 */
#ifndef SONDE_TARGET_STATE_H
#define SONDE_TARGET_STATE_H

#include "target/target.h"

/* The name of system call NUMBER of MACHINE, NULL when it is not known. */
const char *syscall_name(machine_t machine, long number);

/* Which argument of system call NAME is a descriptor, -1 when none is. */
int syscall_fd_argument(const char *name);

/* Fills THREAD->wait from the system call NUMBER with ARGS: name, descriptor, and for a futex the
 * mutex and its owner, read from the target's memory now. */
void state_wait(target_t *target, thread_t *thread, long number, const uint64_t args[6]);

/* Has THREAD's owner changed since state_wait? Reads it again. */
bool state_owner_same(target_t *target, const thread_t *thread);

/* Finds the cycles among owners and numbers them in `deadlock`, from 1. Returns how many there are.
 * THREADS are sorted by tid. */
uint32_t state_deadlocks(thread_t *threads, size_t count);

#endif
