/* SPDX-License-Identifier: MIT
 *
 * Apple's own malloc log (MallocStackLogging): switched on, found, and saved in a form that `sonde
 * import` reads. sonde_malloc_log_start (sonde/malloc.h) is sonde's own log, which needs none of
 * this.
 *
 * The functions are private ones of libsystem_malloc, which forwards them to the private framework
 * MallocStackLogging. Apple published their declarations with libmalloc 283 to 521 (macOS 10.15 to
 * 14, iOS 13 to 17). Later systems are asked for the framework's functions of the same purpose; if
 * one is missing, SONDE_EUNSUPPORTED is returned. The form of the framework's own stack table is
 * not published. So the frames of each stack are asked for, and written in the form of libmalloc
 * 166, which is. No function was executed on Apple's systems (docs/platforms.md).
 *
 * On Linux, and in a build with SONDE_APPLE_PRIVATE=OFF, all functions return SONDE_EUNSUPPORTED.
 * Call them from one thread at a time, never in a signal handler, inside malloc, or after fork.
 */
#ifndef SONDE_APPLE_LOG_H
#define SONDE_APPLE_LOG_H

#include <stddef.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is logged; the numbers are Apple's. The modes "lite" and "vmlite" have no log. */
typedef enum sonde_apple_log_mode {
  SONDE_APPLE_LOG_ALL = 1,    /* blocks and mappings */
  SONDE_APPLE_LOG_BLOCKS = 2, /* malloc, free, … */
  SONDE_APPLE_LOG_VM = 3,     /* vm_allocate, mmap, … */
} sonde_apple_log_mode_t;

/* Switches the log on. Apple's library removes its file when the program ends.
 * Returns 0; SONDE_EINVAL; SONDE_EUNSUPPORTED; SONDE_EBUSY if the log is on already or the system
 * refuses it. */
SONDE_API int sonde_apple_log_start(sonde_apple_log_mode_t mode);

/* Switches the log off. Its file and its stacks stay until the program ends. Returns 0;
 * SONDE_EUNSUPPORTED. */
SONDE_API int sonde_apple_log_stop(void);

/* Writes the path of the log's file with a final 0 to PATH, which has SIZE bytes: that of an open
 * descriptor whose file is named "stack-logs.PID.….index".
 * Returns the length without the 0; SONDE_ENOTFOUND if there is none or SIZE is too small;
 * SONDE_EINVAL; SONDE_EUNSUPPORTED. */
SONDE_API int sonde_apple_log_path(char *path, size_t size);

/* Writes three new files into FOLDER (NULL: the folder of the log's file): NAME.PID.index, the
 * events; NAME.PID.table, the stacks; NAME.PID.images, the loaded images with their UUIDs. NAME is
 * the file name of the program. `sonde import` reads the three. Files that exist are not replaced.
 *
 * The log goes on. Events of other threads during the call may be missing. The function maps 12 to
 * 24 bytes for each stack.
 * Returns the number of stacks that could not be read; SONDE_ENOTFOUND if there is no log;
 * SONDE_EUNSUPPORTED, also in the modes without a log; SONDE_EIO if a file exists or cannot be
 * written; SONDE_EINVAL if FOLDER is too long; SONDE_ENOMEM. */
SONDE_API int sonde_apple_log_save(const char *folder);

#ifdef __cplusplus
}
#endif
#endif
