/* SPDX-License-Identifier: MIT
 *
 * The region sensor: mmap, munmap, mremap and brk, as the program calls them by name, with the
 * stack and what stands behind the region.
 *
 * What the C library and the loader map for themselves does not pass here: the arenas of malloc,
 * thread stacks, libraries. Such regions are found by checkpoints, the text of /proc/PID/maps in
 * the recording: the recorder takes one now and then, and this takes one when the program ends.
 */
#ifndef SONDE_SENSOR_MALLOC_MAPPING_H
#define SONDE_SENSOR_MALLOC_MAPPING_H

#include "record/writer.h"
#include "sensor/malloc/malloc.h"

typedef struct region {
  mapping_call_t call;
  uint64_t address, size;         /* that is there now, or that went */
  uint64_t old_address, old_size; /* of MAPPING_MOVED */
  uint64_t protection, flags;     /* as mmap(2) takes them */
  uint64_t offset;
  int fd; /* its file; -1: none */
} region_t;

/* The time by which to order a call that takes memory away, read before it; 0: not recording. */
uint64_t mapping_before(void);

/* The call has succeeded. TIME is mapping_before's; 0: now. */
void mapping_record(const region_t *region, uint64_t time, caller_t at);

/* Writes a checkpoint. Not in a signal handler. */
void mapping_checkpoint(void);

#endif
