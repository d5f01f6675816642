/* SPDX-License-Identifier: MIT
 *
 * The last stacks: a program that is ended by a signal of its own making leaves the stack of every
 * thread in the recording.
 *
 * It is done where the kernel would otherwise have ended the program: a handler stands in the place
 * of the default action of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP and SIGSYS. A handler
 * of the program's own runs as without us, and when it, or abort, goes back to the default, it is
 * ours again. When it has written, ours puts the real default back and sends the very same signal
 * once more: status and core are what they would have been. The program never sees it: who asks for
 * the action is told the default (agent/signals.c). Where there is no room for a handler (a stack
 * that overflowed, in a thread without an alternate one) the kernel ends the program as without us,
 * and nothing is recorded.
 *
 * A fault of a guarded copy (arch/guarded.h) is none of the program's: the copy ends there.
 */
#ifndef SONDE_SENSOR_CRASH_H
#define SONDE_SENSOR_CRASH_H

#include <stdbool.h>

/* Whether SIGNAL is one of these, and this process is recorded. */
bool crash_wants(int signal);

/* Whether faults come to crash_handler: it was not replaced by a call of sigaction or its kin,
 * which tell that here. One by another way, and that a thread blocks the signals, is not seen. */
#if defined(__APPLE__) /* no handler of ours stands there */
static inline bool crash_catches_faults(void) { return false; }
#else
bool crash_catches_faults(void);
#endif
void crash_set_handled(int signal, bool is);

/* The handler, and the flags that it is to be installed with, for sigaction(2). */
void crash_handler(int signal, void *info, void *context);
extern const int crash_flags;

#endif
