/* SPDX-License-Identifier: MIT
 *
 * The sampler: where threads spend their CPU time.
 *
 * Each thread has a timer on its own CPU clock, so a thread that sleeps is never woken and one that
 * works is asked in proportion. The signal comes to the thread itself, whose handler captures the
 * stack that was interrupted. A signal that arrives while its thread enters a blocking system call
 * makes the call return early: with SA_RESTART the kernel restarts most; epoll_wait, poll and the
 * sleeps say EINTR, as they would for any signal of the program's own. What a thread that blocks
 * the signal could not take is counted when it can again.
 *
 * Threads are found without a thread of ours: the main thread at the start; others at their first
 * recorded event, when a thread has been made, and by a look at the list of threads that a handler
 * takes ten times a second.
 */
#ifndef SONDE_SENSOR_SAMPLE_H
#define SONDE_SENSOR_SAMPLE_H

/* Starts sampling when the recording asks for it, now or later (write_asked). Once, before there
 * are threads. */
void sample_start(void);

/* In a forked child that is recorded now: it has none of its parent's timers. */
void sample_restart(void);

/* A thread has been made, or may have been: gives a timer to those that have none. At most once a
 * millisecond; later askers are served by the next one or by a tick. */
void sample_look(void);

#endif
