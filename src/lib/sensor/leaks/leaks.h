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
 *
 * In a program with an attached agent the command stops all threads itself, with ptrace(2), and the
 * agent only makes the copy (linux/stopped.c).
 */
#ifndef SONDE_SENSOR_LEAKS_LEAKS_H
#define SONDE_SENSOR_LEAKS_LEAKS_H

#include <stdbool.h>

#include "record/leaks.h"
#include "record/shm.h"

/* Runs in the copy: waits for the blocks in EXCHANGE, searches, writes the result, exits. */
__attribute__((noreturn)) void leaks_copy(leaks_exchange_t *exchange);

/* ---- the exchange (linux/exchange.c) -------------------------------------------------------- */

/* Maps the exchange with the recorder's descriptor NUMBER, as much of it as the address space
 * allows. NULL if it cannot be opened. */
leaks_exchange_t *leaks_open_exchange(const shm_control_t *control, int number);

void leaks_enter_state(leaks_exchange_t *exchange, uint32_t state);

/* Threads inside a realloc, whose block is recorded at neither address. */
uint32_t leaks_count_reallocating(void);

/* Makes the copy while all threads are stopped, and waits until the recorder has saved the live
 * blocks. BESIDE: as a child of the program's parent. 0, SONDE_E… or LEAKS_ERRNO minus an errno. */
int leaks_make_copy(leaks_exchange_t *exchange, const shm_control_t *control, bool beside);

/* ---- the two ways to stop ------------------------------------------------------------------- */

/* A seccomp filter forbids the copy. */
bool leaks_is_forbidden(void);

/* For the attached agent's thread, while the command has stopped all others and written them to the
 * exchange `leaks_fd` of CONTROL. Does nothing if one of them is inside a realloc: the exchange
 * then stays in its state, and the command tries again. 0, or as leaks_make_copy. */
int leaks_copy_stopped(shm_control_t *control);

/* Finds glibc's lists of free memory in the data from START to END. False if they are not there. */
bool leaks_find_bins(uint64_t start, uint64_t end, uint64_t *from, uint64_t *to);

/* Calls FOUND with the dead part of each stack that an ended thread has left in START to END, which
 * is readable. */
void leaks_find_ended(uint64_t start, uint64_t end,
                      void (*found)(uint64_t start, uint64_t end, void *context), void *context);

/* Functions in this section save all callee-saved registers on the stack before they wait: each
 * begins with SPILLS. */
#define SPILLING __attribute__((section("sonde_spilling"), noinline))
#define SPILLS() __builtin_unwind_init()

#endif
