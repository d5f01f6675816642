/* SPDX-License-Identifier: MIT
 *
 * The functions of the C library in which a thread waits: for time, locks, threads, processes or
 * descriptors. A traced call of one of them is time that the program may have spent without a CPU.
 */
#ifndef SONDE_SENSOR_TRACE_WAIT_NAMES_H
#define SONDE_SENSOR_TRACE_WAIT_NAMES_H

#include <stdbool.h>

/* True if the function NAME can block; underscores at the start of NAME do not count. */
bool wait_names_has(const char *name);

/* The same of a function of the library PATH. */
bool wait_names_has_of(const char *name, const char *path);

#endif
