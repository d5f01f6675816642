/* SPDX-License-Identifier: MIT
 *
 * The crash sensor: if a signal terminates the program, the recording gets the stack of every
 * thread.
 *
 * A handler replaces the default action of SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP and
 * SIGSYS. A handler that the program installs runs as usual; when it, or abort, restores the
 * default action, the crash handler is installed again. After recording, the crash handler restores
 * the real default action and sends the same signal again: exit status and core file are as without
 * sonde. sigaction reports the default action to the program (agent/signals.c). A thread without an
 * alternate signal stack gets one, so that a stack overflow is recorded; sigaltstack reports to the
 * program that there is none.
 *
 * A fault inside a guarded copy (arch/guarded.h) only ends that copy.
 */
#ifndef SONDE_SENSOR_CRASH_H
#define SONDE_SENSOR_CRASH_H

#include <stdbool.h>

/* True if SIGNAL is one of these and this process is recorded. */
bool crash_wants(int signal);

/* True if SIGSEGV and SIGBUS reach crash_handler. The agent's hooks of sigaction and similar calls
 * keep this up to date (crash_set_handled). A handler installed by a raw system call, and a thread
 * that blocks the signals, are not noticed. */
#if defined(__APPLE__) /* there is no crash handler */
static inline bool crash_catches_faults(void) { return false; }
#else
bool crash_catches_faults(void);
#endif
void crash_set_handled(int signal, bool handled);

/* The calling thread starts, or ends. */
void crash_thread_starts(void);
void crash_thread_ends(void);

/* The handler, and its flags for sigaction(2). */
void crash_handler(int signal, void *info, void *context);
extern const int crash_flags;

#endif
