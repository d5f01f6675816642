/* SPDX-License-Identifier: MIT
 *
 * The sampler: where threads spend their CPU time.
 *
 * Each thread has a timer on its own CPU clock, so a thread that sleeps is never woken and one that
 * works is asked in proportion. The signal comes to the thread itself, whose handler captures the
 * stack that was interrupted. What a thread that blocks the signal could not take is counted when
 * it can again. Whether a tick can end a system call early depends on the kernel: docs/sampling.md.
 *
 * Where threads are that do not use the CPU is seen from outside (recorder/monitor/wall.h).
 *
 * Threads are found without a thread of ours: the main thread at the start; others when they have
 * been made, and by a look at the list of threads that a handler takes ten times a second.
 */
#ifndef SONDE_SENSOR_SAMPLE_H
#define SONDE_SENSOR_SAMPLE_H

#include <stdint.h>

/* The calling thread has made another, whose pthread_t is HANDLE: gives it its timer, and now and
 * then looks for those that have none. Where it cannot be told which thread that is, there is a
 * look at most once a millisecond, and later askers are served by the next one or by a tick. */
void sample_thread_created(uint64_t handle);

#endif
