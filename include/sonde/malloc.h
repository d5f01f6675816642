/* SPDX-License-Identifier: MIT
 *
 * The malloc log, from inside the program: switched on and off, asked about blocks, told of pools.
 *
 * There are two ways to have a log. Under `sonde record` the program is recorded anyway, and these
 * functions act on that recording, whether libsonde was linked as a shared or a static library.
 * Else sonde_malloc_log_start begins one of the program's own: calls of malloc and its family are
 * hooked by their names in every image, those loaded later too (sonde/hook.h says what cannot be
 * reached). Such a recording has no recorder beside it: a program that is killed, or ends by _exit,
 * leaves what was in the file by then, at most 256 KB a thread less; exit and sonde_malloc_log_stop
 * leave all of it. It is read as any other (`sonde report FILE`).
 *
 * On Apple's systems there is no `sonde record`. A log's source there is malloc_logger, which sees
 * every block whoever asks for it; modes with regions, which are __syscall_logger's, work as well.
 * Both are private symbols, which a build may leave out (docs/platforms.md): then functions are
 * hooked as elsewhere.
 *
 * Functions that begin, end and switch a log take locks and may not be called in a signal handler
 * or inside malloc, nor by two threads at a time. The others may be called by any thread, in a
 * signal handler and inside malloc; a forked child has no log until it begins one (or is followed
 * by `sonde record --follow`). Nothing here changes errno.
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

/* What is logged. */
typedef enum sonde_malloc_mode {
  SONDE_MALLOC_OFF = 0,
  SONDE_MALLOC_BLOCKS = 1,   /* every allocation and every free, with its stack */
  SONDE_MALLOC_LIVE = 2,     /* what is live, without history; memory is bounded by the live set */
  SONDE_MALLOC_ALL = 3,      /* blocks, and calls of mmap and its kin */
  SONDE_MALLOC_MAPPINGS = 4, /* those calls alone */
  SONDE_MALLOC_LIVE_MAPPINGS = 5,
} sonde_malloc_mode_t;

/* Begins a log in the new file PATH. Under `sonde record` PATH is not used and may be NULL: the
 * mode is switched. Returns 0; SONDE_EINVAL; SONDE_EBUSY when there is a log; SONDE_EIO when the
 * file exists or cannot be made; SONDE_ENOMEM; SONDE_EUNSUPPORTED for modes with regions outside
 * `sonde record`, and where functions cannot be hooked (a static program). */
SONDE_API int sonde_malloc_log_start(const char *path, sonde_malloc_mode_t mode);

/* Ends the log: what is live in mode LIVE is written, every thread's part is closed, and the hooks
 * are taken away. Under `sonde record` the mode is set to OFF. Waits for
 * calls of other threads that are under way. Returns 0, SONDE_ENOTFOUND without a log, SONDE_EIO,
 * SONDE_ETIMEDOUT when a thread does not get on for five seconds. */
SONDE_API int sonde_malloc_log_stop(void);

/* Switches what is logged. A free of a block that was given out before is told apart in the report.
 * Returns 0, SONDE_EINVAL, SONDE_ENOTFOUND without a log, SONDE_EUNSUPPORTED as above, SONDE_EIO
 * when the recorder does not answer. */
SONDE_API int sonde_malloc_log_mode(sonde_malloc_mode_t mode);

/* A live block. */
typedef struct sonde_block {
  uintptr_t address;
  size_t size;      /* as it was asked for */
  uint32_t stack;   /* sonde_malloc_stack tells its program counters; 0: it could not be taken */
  pid_t tid;        /* the thread that asked for it; 0: that has ended, or is not known */
  uint64_t time_ns; /* of CLOCK_MONOTONIC */
} sonde_block_t;

/* The live block that holds ADDRESS, which may point into it. Answers in the modes LIVE and
 * LIVE_REGIONS, for blocks given out since it was switched on. A block's own address is found in a
 * few memory accesses; any other costs a look at all blocks. Returns 0; SONDE_ENOTFOUND;
 * SONDE_EUNSUPPORTED in other modes; SONDE_EINVAL. */
SONDE_API int sonde_malloc_of(const void *address, sonde_block_t *block);

/* Calls VISIT for each live block, until it returns a value that is not 0. Blocks that come or go
 * meanwhile may be told of or not. VISIT may allocate. Returns how many were visited, or
 * SONDE_EUNSUPPORTED in other modes than LIVE, SONDE_EINVAL. */
SONDE_API int64_t sonde_malloc_each(int (*visit)(const sonde_block_t *block, void *context),
                                    void *context);

/* Writes the program counters of the stack of a block to PCS, as sonde_stack_of_id does for stacks
 * of its own: under `sonde record` the two have different ids. Returns the count or
 * SONDE_ENOTFOUND, SONDE_EINVAL. */
SONDE_API int sonde_malloc_stack(uint32_t stack, uintptr_t *pcs, int max);

/* Blocks of a pool, an arena or any allocator of the program's own, which the log cannot see: SIZE
 * bytes at ADDRESS have been given out; the block at ADDRESS is about to be taken back. They are
 * reported apart, since their memory is part of blocks or regions. Recorded in the modes BLOCKS and
 * ALL; else they do nothing and cost a few loads. Return 0, SONDE_ENOTFOUND without a log,
 * SONDE_EINVAL for NULL. */
SONDE_API int sonde_alloc_event(const void *address, size_t size);
SONDE_API int sonde_free_event(const void *address);

/* Gives this moment a name of at most 1000 bytes, in whatever is recorded; `sonde events` shows it.
 * Returns 0, SONDE_ENOTFOUND without a log, SONDE_EINVAL for NULL. */
SONDE_API int sonde_mark(const char *name);

#ifdef __cplusplus
}
#endif
#endif
