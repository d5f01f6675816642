/* SPDX-License-Identifier: MIT
 *
 * Counts the open descriptors of a process, and tells their kinds: files, sockets, pipes and so on.
 * The count is one system call. Kinds need two for each descriptor, so they are read only when the
 * count has doubled, and only of processes with few descriptors. One thread reads a process.
 */
#ifndef SONDE_RECORDER_MONITOR_USAGE_DESCRIPTORS_H
#define SONDE_RECORDER_MONITOR_USAGE_DESCRIPTORS_H

#include "recorder/monitor/usage/usage_read.h"

/* Reads kinds between these counts: 512 descriptors take the CPU for about a millisecond. */
enum { DESCRIPTORS_KINDS_LEAST = 32, DESCRIPTORS_KINDS_MOST = 512 };

/* Counts the entries of FOLDER, which is /proc/PID/fd. False if it cannot be read. */
bool descriptors_count(int folder, uint64_t *out);

/* Updates the kinds in VALUES, which has the count. *CLASSIFIED is the count when kinds were read
 * last; it begins as 0. */
void descriptors_read_kinds(int folder, uint64_t *classified, usage_values_t *values);

/* Makes the kinds in VALUES unknown. */
void descriptors_forget(usage_values_t *values);

/* The kind of the descriptor whose link in /proc/PID/fd has TEXT, and with IS_WRITTEN is open for
 * writing. */
usage_field_t descriptors_kind(const char *text, bool is_written);

#endif
