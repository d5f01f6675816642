/* SPDX-License-Identifier: MIT
 *
 * A look at the memory graph from inside: all threads are held for a moment, the process is copied,
 * and the program goes on. The copy searches its own memory (leaks_copy.c), so nobody has to be
 * allowed to read another process's: it works without ptrace, and where that is forbidden.
 *
 * It begins with a signal that the recorder sends one thread, which leads. A thread that runs, or
 * is blocked in a call that goes on after a signal, or can be made to, is asked by signal: its
 * handler notes its registers and stays until the copy is made. One that waits in one of the
 * agent's hooks (agent/wait.c) is left where it is: what it keeps for its callers is on its stack,
 * which is searched from the stack pointer up. So is one whose call a signal would end for good (a
 * wait for some time); its registers are not known, and that is told.
 *
 * Whether a thread that was left where it is has moved meanwhile is told by its CPU clock.
 */
#ifndef SONDE_SENSOR_LEAKS_LEAKS_H
#define SONDE_SENSOR_LEAKS_LEAKS_H

#include <stdbool.h>

#include "record/leaks.h"

/* In the copy, once EXCHANGE says what to do. */
__attribute__((noreturn)) void leaks_copy(leaks_exchange_t *exchange);

/* Whether the data from START to END holds glibc's lists of free memory, and where. */
bool leaks_find_bins(uint64_t start, uint64_t end, uint64_t *from, uint64_t *to);

/* Functions in this section keep all registers that belong to their callers on the stack while they
 * wait: each begins with SPILLS. */
#define SPILLING __attribute__((section("sonde_spilling"), noinline))
#define SPILLS() __builtin_unwind_init()

#endif
