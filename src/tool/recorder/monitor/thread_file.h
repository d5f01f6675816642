/* SPDX-License-Identifier: MIT
 *
 * Files of /proc/PID/task/TID. A file that is read repeatedly can stay open; then a read takes half
 * a microsecond. All monitors together keep at most a quarter of the recorder's descriptors open.
 */
#ifndef SONDE_RECORDER_MONITOR_THREAD_FILE_H
#define SONDE_RECORDER_MONITOR_THREAD_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Bytes with the terminating 0. */
#define THREAD_NAME_MAX 16

/* The folder of the threads of PID. NULL if it cannot be opened. */
DIR *thread_file_folder(pid_t pid);

/* The next thread in FOLDER; 0 if there is none or FOLDER is NULL. */
pid_t thread_file_next(DIR *folder);

/* Opens file NAME; close it with thread_file_close. -1 if it cannot be opened or too many are open.
 */
int thread_file_open(pid_t pid, pid_t tid, const char *name);
void thread_file_close(int fd);

/* Reads the text of the file and adds a 0: from FD, or if FD is -1 from a temporary descriptor.
 * False if there is no text: the thread has ended or may not be read. */
bool thread_file_read(int fd, pid_t pid, pid_t tid, const char *name, char *out, size_t size);

/* The thread's name; OUT is unchanged if the thread has ended. */
void thread_file_name(pid_t pid, pid_t tid, char out[THREAD_NAME_MAX]);

#endif
