/* SPDX-License-Identifier: MIT
 *
 * The files of /proc of one thread of another process. Those that are read again and again stay
 * open, which makes a reading half a microsecond long; but all monitors together keep no more than
 * a quarter of the descriptors that the recorder may have, so that some are left for other things.
 */
#ifndef SONDE_RECORDER_MONITOR_THREAD_FILE_H
#define SONDE_RECORDER_MONITOR_THREAD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define THREAD_NAME_MAX 16 /* with its end */

/* An open descriptor, to be given back by thread_file_close; -1 where it cannot be opened, or
 * enough are open. */
int thread_file_open(pid_t pid, pid_t tid, const char *name);
void thread_file_close(int kept);

/* The text of the file, ended with a 0, from KEPT or, where that is -1, opened for this reading
 * alone. False when there is nothing to be read: the thread is gone, or it may not be looked at. */
bool thread_file_read(int kept, pid_t pid, pid_t tid, const char *name, char *out, size_t size);

/* The thread's name; OUT is left alone when it is gone. */
void thread_file_name(pid_t pid, pid_t tid, char out[THREAD_NAME_MAX]);

#endif
