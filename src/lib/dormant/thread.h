/* SPDX-License-Identifier: MIT
 *
 * A thread that the C library does not know, as the command starts one in a program that it
 * attaches to (agent/attach_block.h).
 */
#ifndef SONDE_DORMANT_THREAD_H
#define SONDE_DORMANT_THREAD_H

#include "base/bits.h"

/* Starts a thread with the clone(2) FLAGS that calls RUN(ARGUMENT) and ends. STACK is one past its
 * stack, a multiple of 16; TLS is its thread pointer. The kernel sets *CLEARED to 0 when the thread
 * has ended (CLONE_CHILD_CLEARTID). Returns its id or a negative errno. */
HIDDEN int64_t dormant_thread_start(uint64_t flags, uint64_t stack, uint64_t tls,
                                    void (*run)(void *argument), void *argument, uint32_t *cleared);

/* Fills the memory around the thread pointer TLS as the C libraries' code expects it. */
HIDDEN void dormant_thread_area(uint64_t tls);

#endif
