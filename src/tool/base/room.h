/* SPDX-License-Identifier: MIT
 *
 * Tries allocations before they are needed, where the address space is limited (setrlimit(2),
 * RLIMIT_AS). Libraries that do not check every allocation crash there, or leave something out.
 */
#ifndef SONDE_BASE_ROOM_H
#define SONDE_BASE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

bool room_is_limited(void);

/* In a limited address space: ends the process with "out of memory" unless BYTES can be allocated.
 */
void room_need(uint64_t bytes);

/* The same for a megabyte of stack, or half of what RLIMIT_STACK allows. Touches it: a stack that
 * cannot grow later ends the process with SIGSEGV. */
void room_need_stack(void);

/* The same for the bytes of the file FD, which is then mapped. */
void room_need_file(int fd);

#endif
