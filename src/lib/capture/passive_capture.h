/* SPDX-License-Identifier: MIT
 *
 * Passive capture: reads the stack of a blocked thread without a signal, a stop or an EINTR.
 *
 * The kernel reports the stack pointer and pc of a thread that is off the CPU. The thread's stack
 * lies in this address space. The stack is copied in pieces by guarded reads, and the copy is
 * walked. Nothing stops the thread meanwhile. Its CPU clock, read before and after, shows whether
 * it ran: if the clock advanced, the sample is discarded and taken again. If that clock is too
 * coarse, counters of the scheduler replace it (os_thread_progress).
 *
 * A thread whose CPU clock has not advanced since its last capture is still at the same place. So
 * its stack pointer and pc are saved with its stack (capture/capture_cache.h), which spares the
 * most expensive system call. Its stack is copied and walked again from there. The saved stacks are
 * one bounded table for the process, which evicts old entries.
 *
 * The CPU clock is no proof: that of a thread that ran for some microseconds can stand still (see
 * os_thread_cpu_ns). So a stack is returned only if the walk finds the saved one, and if the words
 * just below the stack pointer are the same. Otherwise the place is read anew. A thread that called
 * anything, or returned and called something else, has changed such a word. What remains: the clock
 * stood still, and the thread went from one place to another without any such write, by system
 * calls without a wrapper or by page faults. Then the returned stack is the previous one. And in a
 * new sample: the clock stood still while the thread ran between the reports of its place and of
 * its clock, which are some microseconds apart. The count in /proc/self/task/TID/schedstat would
 * be a proof; reading it takes as long as all the rest.
 *
 * On Apple systems the thread is suspended while its stack is copied; see apple/passive_capture.c.
 */
#ifndef SONDE_CAPTURE_PASSIVE_CAPTURE_H
#define SONDE_CAPTURE_PASSIVE_CAPTURE_H

#include "os/os.h"
#include "sonde/stack.h"

/* The memory that stacks are copied to. One buffer serves any number of threads, one after the
 * other. */
typedef struct passive_buffer {
  /* From os_threads_open, or -1. The caller owns it. */
  int folder;
  uint8_t *bytes;
  /* USED is the number of bytes ever written. */
  uint64_t size, used;
} passive_buffer_t;

/* Allocates the buffer and sets FOLDER to -1. Returns false if memory is exhausted. */
bool passive_open(passive_buffer_t *copy);
void passive_close(passive_buffer_t *copy);

/* Captures thread TID, which is not the calling one. IDENTITY is from os_threads; 0 if unknown, and
 * then nothing is saved. Sets CAPTURE's count, status, reason and flags. Returns the count, or
 * SONDE_ENOTHREAD, SONDE_ERUNNING (also if the thread ran during each attempt), or
 * SONDE_EUNSUPPORTED if the system does not report where a thread is blocked. frame_table_init must
 * have succeeded. */
int passive_capture(passive_buffer_t *copy, pid_t tid, uint64_t identity, sonde_capture_t *capture);

/* A thread of a group, and the result of passive_capture for it. */
typedef struct passive {
  pid_t tid;
  uint64_t identity;
  sonde_capture_t *capture;
  int result;
} passive_t;

/* As passive_capture, for up to PASSIVE_GROUP threads, whose stacks are copied together. Groups are
 * small, so that a thread has little time to run between the check and the copy. */
#define PASSIVE_GROUP 16
void passive_capture_group(passive_buffer_t *copy, passive_t *group, int count);

#endif
