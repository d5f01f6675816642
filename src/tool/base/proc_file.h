/* SPDX-License-Identifier: MIT
 *
 * Files of /proc/PID (proc(5)). Any thread may use these functions.
 */
#ifndef SONDE_BASE_PROC_FILE_H
#define SONDE_BASE_PROC_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Reads at most SIZE - 1 bytes of /proc/PID/NAME and appends a 0. Returns the number of bytes, or
 * -1 with errno; OUT is then "". */
ssize_t proc_file_read(pid_t pid, const char *name, char *out, size_t size);

/* The number of the line that FIELD begins, as "\nSeccomp:", in the text of a file `status`; -1 if
 * there is none. */
long proc_file_number(const char *status, const char *field);

#endif
