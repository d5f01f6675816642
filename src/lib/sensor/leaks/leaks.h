/* SPDX-License-Identifier: MIT
 *
 * The leak search, the part in the program: all threads are stopped for a moment, the process is
 * copied (fork), and the program continues. The copy searches its own memory (linux/copy.c), so no
 * process needs permission to read another: it works without ptrace(2) and where that is forbidden.
 *
 * The search begins with a signal from the recorder to one thread, the leader. The leader signals
 * other threads that run, or that are blocked in a call that the kernel restarts or sonde can
 * resume. Their handlers save the registers and wait until the copy is made. A thread that waits in
 * a hook of the agent (agent/wait.c) is not signaled: the registers of its callers are on its
 * stack, which is searched from the stack pointer up. A thread whose call a signal would end (a
 * wait with a time limit) is not signaled either. Its registers are unknown, and the result says
 * so.
 *
 * The CPU clock of a thread that was not signaled shows whether it has run meanwhile.
 */
#ifndef SONDE_SENSOR_LEAKS_LEAKS_H
#define SONDE_SENSOR_LEAKS_LEAKS_H

#include <stdbool.h>

#include "record/leaks.h"

/* Runs in the copy: waits for the blocks in EXCHANGE, searches, writes the result, exits. */
__attribute__((noreturn)) void leaks_copy(leaks_exchange_t *exchange);

/* Finds glibc's lists of free memory in the data from START to END. False if they are not there. */
bool leaks_find_bins(uint64_t start, uint64_t end, uint64_t *from, uint64_t *to);

/* Functions in this section save all callee-saved registers on the stack before they wait: each
 * begins with SPILLS. */
#define SPILLING __attribute__((section("sonde_spilling"), noinline))
#define SPILLS() __builtin_unwind_init()

#endif
