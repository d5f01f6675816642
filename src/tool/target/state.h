/* SPDX-License-Identifier: MIT
 *
 * What a thread waits for: its system call, the lock and its owner, and cycles of owners
 * (deadlocks).
 */
#ifndef SONDE_TARGET_STATE_H
#define SONDE_TARGET_STATE_H

#include "target/target.h"

/* The name of system call NUMBER of MACHINE; NULL if unknown. */
const char *syscall_name(machine_t machine, long number);

/* The index of the argument of system call NAME that is a descriptor; -1: none. */
int syscall_fd_argument(const char *name);

/* Fills THREAD->wait from system call NUMBER with ARGS: its name, its descriptor, and for a futex
 * the mutex and its current owner, read from the target's memory. */
void state_wait(target_t *target, thread_t *thread, long number, const uint64_t args[6]);

/* The descriptors that THREAD waits for in poll, select or epoll_wait, at most MAX, and their
 * number in all. 0: it waits in another call, or they cannot be read. They are read now: the thread
 * must still be in the call. */
size_t state_wait_descriptors(target_t *target, const thread_t *thread, int *out, size_t max);

/* Writes what descriptor FD of a live target is, such as "pipe:[7]", to OUT. False: unknown. */
bool state_descriptor(const target_t *target, int fd, char *out, size_t size);

/* What THREAD waits on, a file or a lock with a name; NULL: unknown. */
const char *state_wait_what(const thread_t *thread);

/* Reads the lock of THREAD again: whether the same thread has held it since state_wait. */
bool state_owner_same(target_t *target, const thread_t *thread);

/* Finds cycles of lock owners and numbers them in `deadlock`, from 1. Returns their count. THREADS
 * must be sorted by tid. */
uint32_t state_deadlocks(thread_t *threads, size_t count);

#endif
