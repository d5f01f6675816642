/* SPDX-License-Identifier: MIT
 *
 * Loads the agent into a running program and calls it there, without the program's loader.
 *
 * Four steps, and the program runs between them:
 *   1. A thread of the program is borrowed for one mmap.
 *   2. The command relocates the agent for that address and copies it through /proc/PID/mem.
 *   3. A thread is borrowed for one clone. The new thread belongs to no C library: it has a stack
 *      and a thread pointer of its own and blocks all signals but those of faults. It calls
 *      sonde_attach_run (agent/attach_block.h) and exits. The command traces it: if it faults or
 *      hangs, the command makes it exit, and the program goes on.
 *   4. To leave: once no thread can be in the agent, a thread is borrowed for one munmap.
 *
 * A borrowed thread gets back its registers, signal mask and pending signals, and the system call
 * that it waited in goes on. If the command is killed while a thread is borrowed, that thread
 * returns through a signal frame which was prepared for it.
 *
 * The functions may be called by any thread, but by one at a time for one attach_t. Each that stops
 * a thread forks a process for it. They return false with PROBLEM: the reason in words and what to
 * do about it.
 */
#ifndef SONDE_ATTACH_ATTACH_H
#define SONDE_ATTACH_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/target.h"

typedef struct attach attach_t;

/* How long the last borrowed thread was stopped for each step, from its stop until it was released;
 * 0: never. No other thread is stopped. */
typedef struct attach_pauses {
  uint64_t map_ns, run_ns, unmap_ns;
} attach_pauses_t;

/* Checks whether the process PID may be attached to, without stopping or changing it. NULL with
 * PROBLEM if not. Until attach_close, no other command can attach to PID. The caller frees the
 * result with attach_close. */
attach_t *attach_open(pid_t pid, problem_t *problem);

/* Loads the shared object PATH, which exports sonde_attach_run and needs no loader
 * (attach/object.h). If an earlier attach_load left the same build in the program, it is used
 * again: *IS_NEW is then false. IS_NEW may be NULL. */
bool attach_load(attach_t *attach, const char *path, bool *is_new, problem_t *problem);

/* Like attach_load, but only finds an object that is in the program. */
bool attach_find(attach_t *attach, const char *path, problem_t *problem);

/* Calls sonde_attach_run with REQUEST (ATTACH_START or ATTACH_STOP) in a new thread of the program
 * and waits until that thread has ended. SETTINGS go to the block; NULL: "". A call that takes
 * longer than LIMIT_MS is ended; time in which its thread gets no CPU does not count. On failure,
 * PROBLEM contains the agent's message if there is one. After a fault or the limit, the object
 * remains mapped but is never used again. Call attach_load or attach_find first. */
bool attach_run(attach_t *attach, uint64_t request, const char *settings, unsigned limit_ms,
                problem_t *problem);

/* After a successful ATTACH_STOP: whether the agent says that it can never be unmapped, with
 * PROBLEM. attach_load uses it again. */
bool attach_must_stay(attach_t *attach, problem_t *problem);

/* Unmaps the object, if no thread has a pc or a stack word in it. The caller must know that no
 * thread can enter it: the agent has removed all hooks. Waits up to WAIT_MS for threads that are
 * in it. False with PROBLEM if the object stays mapped: it sleeps there until attach_load uses it
 * again. */
bool attach_unload(attach_t *attach, unsigned wait_ms, problem_t *problem);

/* Lets a thread of the program reap the child PID of the program, if it has ended. PID is of the
 * program's pid namespace. */
bool attach_reap(attach_t *attach, pid_t pid, problem_t *problem);

/* Where the object is in the program: headers to the end of .bss. False if it is not loaded. */
bool attach_image(const attach_t *attach, uint64_t *start, uint64_t *size);

attach_pauses_t attach_pauses(const attach_t *attach);

/* Does not unload. NULL is allowed. */
void attach_close(attach_t *attach);

#endif
