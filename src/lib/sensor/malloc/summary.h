/* SPDX-License-Identifier: MIT
 *
 * The summary of a program's live blocks: see sonde/log.h, and docs/format.md for the format.
 */
#ifndef SONDE_SENSOR_MALLOC_SUMMARY_H
#define SONDE_SENSOR_MALLOC_SUMMARY_H

#include <stddef.h>

/* As sonde_summary_write. */
int malloc_summary_write(const char *path, size_t limit_bytes);

#endif
