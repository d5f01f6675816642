/* SPDX-License-Identifier: MIT
 *
 * Whether a thread of the program can still come back to the object: it has a pc, a register or a
 * word on its stack there.
 */
#ifndef SONDE_ATTACH_SCAN_H
#define SONDE_ATTACH_SCAN_H

#include "attach/session.h"

/* Waits up to WAIT_MS until no thread can. Sets *INSIDE to a thread that can, or to 0. False with
 * PROBLEM if the program cannot be read, for example because it has ended. A thread that was found
 * clean stays so, because nothing leads into the object any more. Threads that wait are read in
 * place; others are stopped for the time of the read. Only the tracer calls this. */
bool scan_wait(attach_t *attach, unsigned wait_ms, pid_t *inside, problem_t *problem);

#endif
