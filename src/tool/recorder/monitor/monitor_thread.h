/* SPDX-License-Identifier: MIT
 *
 * The thread of a monitor. Signals are for the recorder's main thread, so all are blocked in it.
 */
#ifndef SONDE_RECORDER_MONITOR_MONITOR_THREAD_H
#define SONDE_RECORDER_MONITOR_MONITOR_THREAD_H

#include <pthread.h>

#include "recorder/recording_file.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct monitor_thread {
  pthread_t id;
  bool runs; /* false: it was not started, or no thread could be made */
} monitor_thread_t;

/* Starts a thread that calls RUN with MONITOR. False: no thread could be made. Prints that once. */
bool monitor_thread_start(monitor_thread_t *thread, void *(*run)(void *), void *monitor);

/* Starts a thread of the recorder with a small stack, and leaves its signals as they are. False
 * with errno: no thread could be made. */
bool monitor_thread_create(pthread_t *id, void *(*run)(void *), void *argument);

/* A line for recordings if a monitor of this process got no thread; else NULL. */
const char *monitor_thread_problem(void);

/* Ends a thread that runs until *STOP is 1 and sleeps on the futex *BELL while that is 0. Returns
 * when the thread has ended. */
void monitor_thread_stop(monitor_thread_t *thread, uint32_t *stop, uint32_t *bell);

/* Waits for the end of a thread that was told to end. */
void monitor_thread_join(monitor_thread_t *thread);

/* The doublings of a monitor's pauses: none at first, when most happens and short programs end; one
 * after a minute, so that a long recording costs less. */
static inline unsigned monitor_settled(const recording_t *recording) {
  return recording_now_ns(recording) > UINT64_C(60000000000);
}

#endif
