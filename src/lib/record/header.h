/* SPDX-License-Identifier: MIT
 *
 * The header of a recording, and writing to its file. All writers of recordings use this file: the
 * recorder, a program that records itself into a file or into memory, and the importers.
 *
 * Threads: any; nothing here is shared.
 */
#ifndef SONDE_RECORD_HEADER_H
#define SONDE_RECORD_HEADER_H

#include <sys/types.h>

#include "os/os.h"
#include "record/shm.h"

/* Sets the fields that are the same in every recording; all others are 0. */
void header_init(record_header_t *header);

/* Fills the header of a recording of process PID that starts now. The clock is the cycle counter if
 * the kernel trusts it; a tick is 32 to 128 ns. */
void header_begin(record_header_t *header, pid_t pid);

/* Waits until half a millisecond has passed since header_begin, reads both clocks again (`end_…`),
 * and sets the length of a tick. So the clock's rate is known even if the file is never finished.
 */
void header_calibrate(record_header_t *header);

/* Reads the unshifted clock and os_monotonic_ns at the same time. */
void header_clocks(const record_header_t *header, uint64_t *ticks, uint64_t *ns);

/* Copies the counters of the control page, and the time. */
void header_update(record_header_t *header, const shm_control_t *control);

/* The recording is complete: as header_update, and sets the final state. EXIT_STATUS is as from
 * wait(2), or RECORD_STATUS_UNKNOWN. All chunks are in the file FD. */
void header_finish(record_header_t *header, const shm_control_t *control, uint32_t exit_status,
                   int fd);

/* Writes the header to offset 0 of FD. Returns 0 or a negative errno. */
int header_write(const record_header_t *header, int fd);

/* Writes all SIZE bytes at OFFSET of FD. Returns 0 or a negative errno. */
int header_write_at(int fd, const void *data, uint64_t size, uint64_t offset);

/* The stop reason for the failed write with ERROR, a positive errno. */
record_stop_t header_stop_reason(int error);

/* The size of the ring in a file of LIMIT_BYTES (0: no limit, no ring): three quarters; the tables
 * take the rest. */
uint64_t header_ring_bytes(uint64_t limit_bytes);

/* Fills CONTROL, otherwise left as it is, for a recording with HEADER in FILE_FD, a descriptor of
 * this process. The first RING_BYTES behind the header are a ring. Sets no live table and no
 * policy. Returns false if fstat fails. */
bool header_control(const record_header_t *header, int file_fd, uint64_t ring_bytes,
                    shm_control_t *control);

#endif
