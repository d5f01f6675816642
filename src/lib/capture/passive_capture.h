/* SPDX-License-Identifier: MIT
 *
 * The stack of a thread that is blocked, read where it is: no signal, no stop, no EINTR.
 *
 * The kernel tells the stack pointer and the pc of a thread that is off the CPU; its stack lies in
 * our own address space. It is copied in pieces, guarded, and walked in the copy. Nothing holds the
 * thread meanwhile. Whether it moved is told by its CPU clock, read before and after: a thread that
 * executed anything in between has used time, and the sample is thrown away and taken again. Where
 * that clock is too coarse, counts of the scheduler's stand in for it (os_thread_progress).
 *
 * By the same token, a thread whose CPU clock stands where it stood when it was last captured still
 * has the stack it had then: that answer is kept and given again. What was kept is a bounded table,
 * one for the process, that forgets whom it has no room for.
 */
#ifndef SONDE_CAPTURE_PASSIVE_CAPTURE_H
#define SONDE_CAPTURE_PASSIVE_CAPTURE_H

#include "os/os.h"
#include "sonde/stack.h"

/* Where stacks are copied to. One serves any number of threads, one after the other. */
typedef struct passive_buffer {
  int folder; /* of os_threads_open, or -1; the caller's */
  uint8_t *bytes;
  uint64_t size, used; /* of the size, how much was ever written */
} passive_buffer_t;

/* Sets FOLDER to -1. False when there is no memory. */
bool passive_open(passive_buffer_t *copy);
void passive_close(passive_buffer_t *copy);

/* Captures thread TID, which is not the calling one. IDENTITY is what os_threads said of it; 0 when
 * it is not known, and then nothing is kept. Sets CAPTURE's count, mark, reason and flags.
 * Returns the count, or SONDE_ENOTHREAD, SONDE_ERUNNING (also when it would not keep still), or
 * SONDE_EUNSUPPORTED when this system does not tell where a thread is. frame_table_init must have
 * succeeded. */
int passive_capture(passive_buffer_t *copy, pid_t tid, uint64_t identity, sonde_capture_t *capture);

/* A thread of a group: what is asked, and passive_capture's answer. */
typedef struct passive {
  pid_t tid;
  uint64_t identity;
  sonde_capture_t *capture;
  int result;
} passive_t;

/* The same for up to PASSIVE_GROUP threads, whose stacks are copied together. A group is small, so
 * that its threads have little time to go on before they have been read. */
#define PASSIVE_GROUP 16
void passive_capture_group(passive_buffer_t *copy, passive_t *group, int count);

#endif
