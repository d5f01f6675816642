/* SPDX-License-Identifier: MIT
 *
 * The sampler: stacks of threads, in proportion to their CPU time.
 *
 * Each thread has a timer on its own CPU clock, so a sleeping thread is never woken. The timer's
 * signal is delivered to the thread, whose handler captures the interrupted stack. A thread that
 * blocks the signal misses ticks; the next sample carries their number. docs/sampling.md says when
 * a tick can interrupt a system call. Threads that use no CPU are sampled by the recorder
 * (tool/recorder/monitor/wall.h).
 *
 * No thread is added to the program to find its threads. The main thread gets its timer at the
 * start, others when they are created. A tick handler also lists all threads at most ten times a
 * second.
 */
#ifndef SONDE_SENSOR_SAMPLE_H
#define SONDE_SENSOR_SAMPLE_H

#include <stdint.h>
#include <sys/types.h>

/* The calling thread has created the thread with pthread_t HANDLE: gives it a timer. If its tid
 * cannot be derived from HANDLE, lists all threads instead, at most once a millisecond; a thread
 * created in between gets its timer from the next listing. Any thread, not in a signal handler. */
void sample_thread_created(uint64_t handle);

/* A random time of at most an interval between two ticks, in nanoseconds; 1 while CPU time is not
 * sampled. Any thread, also in a signal handler. */
uint64_t sample_random_delay_ns(pid_t tid);

#endif
