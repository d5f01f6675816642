/* SPDX-License-Identifier: MIT
 *
 * A process that stops threads of the program for the command. When it ends, for any reason, the
 * kernel releases what it traced.
 */
#ifndef SONDE_ATTACH_TRACER_H
#define SONDE_ATTACH_TRACER_H

#include <stdbool.h>

/* Forks a tracer, which calls STEP with CONTEXT, and waits for its end. Signals for the command do
 * not reach the tracer. What STEP finds out must go to shared memory. False with errno if no
 * process can be started. */
bool tracer_run(void (*step)(void *context), void *context);

/* For the tracer: while a thread is stopped it waits for the tracer, so the tracer goes first on a
 * busy machine. It never computes for long then. Without the right to do so, nothing changes. */
void tracer_hurry(bool on);

#endif
