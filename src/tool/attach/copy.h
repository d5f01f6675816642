/* SPDX-License-Identifier: MIT
 *
 * A copy of a program with the attached agent, for a search for leaks (record/leaks.h): all threads
 * are stopped, their registers are read, and the agent forks the process.
 *
 * The copy is a child of the program that no wait of the program returns: it has no exit signal
 * (wait(2), __WCLONE). The program is made to reap it when it has ended.
 */
#ifndef SONDE_ATTACH_COPY_H
#define SONDE_ATTACH_COPY_H

#include "attach/attach.h"
#include "record/leaks.h"

/* Makes the copy through the exchange EXCHANGE_FD, whose state is LEAKS_REQUESTED. Call attach_find
 * first. *REAPED_AS is the copy's pid in the program's pid namespace; 0: there is no copy. False
 * with PROBLEM; there may be a copy nevertheless. */
bool copy_make(attach_t *attach, int exchange_fd, pid_t *reaped_as, problem_t *problem);

/* Waits until the copy has ended, at most some seconds, and lets the program reap it. False with
 * PROBLEM. */
bool copy_reap(attach_t *attach, pid_t reaped_as, problem_t *problem);

#endif
