/* SPDX-License-Identifier: MIT
 *
 * What the system call futex takes, futex(2). linux/futex.h has it, too, but musl's compiler
 * wrapper does not find the kernel's headers.
 */
#ifndef SONDE_OS_LINUX_CALLS_FUTEX_H
#define SONDE_OS_LINUX_CALLS_FUTEX_H

#define FUTEX_WAIT_SHARED  0
#define FUTEX_WAKE_SHARED  1
#define FUTEX_WAIT_PRIVATE 128
#define FUTEX_WAKE_PRIVATE 129

/* Operations, without their flags. */
#define FUTEX_CMD_MASK    ~(128 | 256)
#define FUTEX_WAIT        0
#define FUTEX_LOCK_PI     6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_LOCK_PI2    13

/* The thread that has a lock with priority inheritance. */
#define FUTEX_TID_MASK 0x3fffffff

#endif
