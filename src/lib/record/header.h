/* SPDX-License-Identifier: MIT
 *
 * The header of a recording, as everyone fills it who makes one: the recorder, a program that logs
 * itself, one that keeps its trace in memory.
 */
#ifndef SONDE_RECORD_HEADER_H
#define SONDE_RECORD_HEADER_H

#include <sys/types.h>

#include "os/os.h"
#include "record/shm.h"

/* A header of a recording of the process PID that begins now. Its clock is the cycle counter where
 * the kernel trusts that, and ticks 32 to 128 ns long; other fields are 0. */
void header_begin(record_header_t *header, pid_t pid);

/* When half a millisecond has passed since header_begin, for which it waits, reads both clocks once
 * more (`end_…`), and makes a tick as long as it may be: the file has a rate of its clock even if
 * it is never finished. */
void header_calibrate(record_header_t *header);

/* The clock, not shifted, and os_monotonic_ns, at one moment. */
void header_clocks(const record_header_t *header, uint64_t *ticks, uint64_t *ns);

/* Takes over what the control page counts, and the time. */
void header_update(record_header_t *header, const shm_control_t *control);

/* Fills a control page, otherwise as it is, for a recording with HEADER into FILE_FD, one of our
 * descriptors, the first RING_BYTES of which are a ring: without a table of live blocks or a
 * policy. False when the file cannot be looked at. */
bool header_control(const record_header_t *header, int file_fd, uint64_t ring_bytes,
                    shm_control_t *control);

#endif
