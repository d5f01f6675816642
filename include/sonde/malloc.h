/* SPDX-License-Identifier: MIT
 *
 * Records this program's allocations, and queries its live blocks.
 *
 * Under `sonde record` these functions act on that recording, whether libsonde is linked as a
 * shared or a static library. Otherwise sonde_malloc_log_start creates a recording, and hooks
 * malloc and its family by name in every image, including images loaded later. sonde/hook.h lists
 * calls that hooks cannot see. `sonde report FILE` reads both kinds of recording.
 *
 * Without `sonde record`, no second process completes the recording. exit and sonde_malloc_log_stop
 * write everything. A program that is killed or calls _exit loses the last events, at most 256 KB
 * per thread.
 *
 * Apple's systems have no `sonde record`. There, malloc_logger reports blocks from every caller,
 * and __syscall_logger reports mappings. Both are private symbols of the system; a build without
 * them (docs/platforms.md) hooks functions as on other systems.
 *
 * Unless a declaration says otherwise, a function here may be called by any thread, in a signal
 * handler and inside malloc. The functions sonde_malloc_log_… take locks: call them from one thread
 * at a time, never in a signal handler or inside malloc. A forked child has no recording until it
 * starts one or `sonde record --follow` records it. No function changes errno.
 */
#ifndef SONDE_MALLOC_H
#define SONDE_MALLOC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is recorded. */
typedef enum sonde_malloc_mode {
  SONDE_MALLOC_OFF = 0,
  /* every allocation and free, with its stack */
  SONDE_MALLOC_BLOCKS = 1,
  /* the live blocks, without history: memory use is bounded by the live set */
  SONDE_MALLOC_LIVE = 2,
  /* BLOCKS and MAPPINGS */
  SONDE_MALLOC_ALL = 3,
  /* calls of mmap, munmap, mremap and brk */
  SONDE_MALLOC_MAPPINGS = 4,
  /* LIVE and MAPPINGS */
  SONDE_MALLOC_LIVE_MAPPINGS = 5,
} sonde_malloc_mode_t;

/* Starts recording in MODE into the new file PATH. Under `sonde record` this function switches the
 * mode and ignores PATH, which may be NULL. PATH is not used after the call.
 * Returns 0; SONDE_EINVAL for an unknown mode or a NULL path; SONDE_EBUSY if a recording exists;
 * SONDE_EIO if the file exists or cannot be created; SONDE_ENOMEM; SONDE_EUNSUPPORTED if the
 * program does not run under `sonde record` and MODE includes mappings, or if functions cannot be
 * hooked (a static program). */
SONDE_API int sonde_malloc_log_start(const char *path, sonde_malloc_mode_t mode);

/* Stops recording: writes the live blocks in a LIVE mode, closes each thread's stream and removes
 * the hooks. Under `sonde record` this function sets the mode to OFF. It waits for events that
 * other threads are writing.
 * Returns 0; SONDE_ENOTFOUND without a recording; SONDE_EIO; SONDE_ETIMEDOUT if a thread does not
 * finish its event within five seconds. */
SONDE_API int sonde_malloc_log_stop(void);

/* Switches the mode. The report counts frees of blocks from before the switch separately.
 * Returns 0; SONDE_EINVAL; SONDE_ENOTFOUND without a recording; SONDE_EUNSUPPORTED as above;
 * SONDE_EIO if the recorder does not reply. */
SONDE_API int sonde_malloc_log_mode(sonde_malloc_mode_t mode);

/* A live block. */
typedef struct sonde_block {
  uintptr_t address;
  /* bytes, as requested */
  size_t size;
  /* for sonde_malloc_stack; 0: the capture failed */
  uint32_t stack;
  /* the thread that allocated the block; 0: that thread has ended or is unknown */
  pid_t tid;
  /* when it was allocated, on CLOCK_MONOTONIC */
  uint64_t time_ns;
} sonde_block_t;

/* Finds the live block that contains ADDRESS and copies it to *BLOCK. Only blocks that were
 * allocated since a LIVE mode was switched on are found. The start address of a block is found in a
 * few memory accesses; any other address costs a scan of all blocks.
 * Returns 0; SONDE_ENOTFOUND; SONDE_EUNSUPPORTED in other modes; SONDE_EINVAL for NULL. */
SONDE_API int sonde_malloc_of(const void *address, sonde_block_t *block);

/* Calls VISIT with each live block and CONTEXT, until VISIT returns a value other than 0. Blocks
 * that are allocated or freed during the call may or may not be visited. *BLOCK is valid until
 * VISIT returns. VISIT may allocate. Returns the number of blocks visited; SONDE_EUNSUPPORTED
 * except in LIVE modes; SONDE_EINVAL. */
SONDE_API int64_t sonde_malloc_each(int (*visit)(const sonde_block_t *block, void *context),
                                    void *context);

/* Writes the program counters of the stack of a block, at most MAX, innermost first, to PCS. Do not
 * pass a block's stack to sonde_stack_of_id: under `sonde record` the two functions use different
 * ids.
 * Returns the count; SONDE_ENOTFOUND; SONDE_EINVAL. */
SONDE_API int sonde_malloc_stack(uint32_t stack, uintptr_t *pcs, int max);

/* For pools and arenas of the program: sonde_alloc_event records that SIZE bytes at ADDRESS have
 * been allocated, sonde_free_event that the block at ADDRESS is about to be freed. Reports list
 * pool blocks apart, since their memory is part of other blocks or mappings. In modes other than
 * BLOCKS and ALL these functions do nothing and cost a few loads. Return 0; SONDE_ENOTFOUND without
 * a recording; SONDE_EINVAL for NULL. */
SONDE_API int sonde_alloc_event(const void *address, size_t size);
SONDE_API int sonde_free_event(const void *address);

/* Records a marker: NAME (at most 1000 bytes are kept), the time and the calling stack, in every
 * mode. `sonde events` shows it, and reports accept it as a time.
 * Returns 0; SONDE_ENOTFOUND without a recording; SONDE_EINVAL for NULL. */
SONDE_API int sonde_mark(const char *name);

#ifdef __cplusplus
}
#endif
#endif
