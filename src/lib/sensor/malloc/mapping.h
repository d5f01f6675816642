/* SPDX-License-Identifier: MIT
 *
 * The mapping sensor: the program's calls of mmap, munmap, mremap and brk, with stack and file.
 *
 * Calls that the C library and the loader make internally are not seen: arenas of malloc, thread
 * stacks, libraries. Checkpoints, the text of /proc/PID/maps in the recording, complete the
 * picture. The recorder writes one from time to time, this sensor one when the program exits.
 */
#ifndef SONDE_SENSOR_MALLOC_MAPPING_H
#define SONDE_SENSOR_MALLOC_MAPPING_H

#include "record/writer.h"
#include "sensor/malloc/malloc.h"

typedef struct region {
  mapping_call_t call;
  /* the mapping that now exists, or that was unmapped */
  uint64_t address, size;
  /* of a call that moved a mapping: where it was */
  uint64_t old_address, old_size;
  /* as arguments of mmap(2) */
  uint64_t protection, flags;
  uint64_t offset;
  /* -1: no file */
  int fd;
  /* what it is for, if there is no file (record/vm_tag.h); NULL: unknown */
  const char *tag;
} region_t;

/* The time of a call that unmaps memory, read before the call; 0: mappings are not recorded. */
uint64_t mapping_before(void);

/* Records a call that has succeeded. TIME is from mapping_before; 0: now. */
void mapping_record(const region_t *region, uint64_t time, caller_t at);

/* Writes a checkpoint. Not for signal handlers. */
void mapping_checkpoint(void);

#endif
