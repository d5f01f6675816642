/* SPDX-License-Identifier: MIT
 *
 * The thread of a monitor. Signals are for the recorder's main thread, so all are blocked in it.
 */
#ifndef SONDE_RECORDER_MONITOR_MONITOR_THREAD_H
#define SONDE_RECORDER_MONITOR_MONITOR_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that calls RUN with MONITOR. Join it. False: no thread could be made. */
bool monitor_thread_start(pthread_t *thread, void *(*run)(void *), void *monitor);

#endif
