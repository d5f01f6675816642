/* SPDX-License-Identifier: MIT
 *
 * The recordings that a program makes of itself (sonde/malloc.h, sonde/audit.h): their size, a
 * summary that is small enough to send, and those that a crash left behind.
 *
 * Call these functions from one thread at a time, never in a signal handler or inside malloc. They
 * do not change errno.
 */
#ifndef SONDE_LOG_H
#define SONDE_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits the files of the recordings that start after this call to BYTES (at least 1 MB; 0: no
 * limit, the default). Three quarters of the file are a ring in which new events overwrite the
 * oldest; `sonde report` tells how much is missing. The rest has stacks and images: if they do not
 * fit, the recording ends. Without effect under `sonde record`, which has --limit.
 * Returns 0; SONDE_EINVAL for fewer bytes. */
SONDE_API int sonde_log_limit(uint64_t bytes);

/* Removes the recording PATH if nobody finished it and the process that wrote it has ended, as
 * after a crash. Until then `sonde report` can still read it: send it first if it matters. A
 * finished recording is kept. So is one whose writer or recorder has the id of a process that
 * exists, and one from another namespace of process ids (a container). If PATH is a symbolic link,
 * the link is removed. Any thread may call it. Returns 1 if it removed PATH; 0 if it kept it;
 * SONDE_EFORMAT if PATH is not a recording; SONDE_EIO if it cannot be read; SONDE_EINVAL. */
SONDE_API int sonde_log_remove_orphan(const char *path);

/* Writes a summary of the live blocks to the new file PATH, of at most LIMIT_BYTES (16 KB to 1 MB;
 * 0: 100,000). The recording goes on. The summary has the count and the bytes of the live blocks of
 * each stack, by size, and the stacks. Stacks that do not fit are those with the fewest bytes;
 * their sum is kept, so that totals are exact. 1,024 stacks of 24 frames took 54 KB. `sonde report`
 * and `sonde diff` read the file; the command, and not the program, finds the names.
 *
 * Blocks that are allocated or freed during the call may or may not be counted. The function maps
 * 9 MB while it runs, of which it uses what it needs. Any thread may call it.
 * Returns the number of stacks that were left out; SONDE_EUNSUPPORTED except in the LIVE modes of
 * sonde_malloc_log_start, and under `sonde record`, whose recordings `sonde pack --summary` makes
 * small; SONDE_EIO if the file exists or cannot be written; SONDE_ENOMEM; SONDE_EINVAL. */
SONDE_API int sonde_summary_write(const char *path, size_t limit_bytes);

#ifdef __cplusplus
}
#endif
#endif
