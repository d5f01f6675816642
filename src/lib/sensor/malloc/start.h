/* SPDX-License-Identifier: MIT
 *
 * A log of the program's own, without `sonde record`: a recording whose file, scratch and hooks the
 * program itself has made. Called by one thread at a time.
 */
#ifndef SONDE_SENSOR_MALLOC_START_H
#define SONDE_SENSOR_MALLOC_START_H

#include <stdbool.h>
#include <stdint.h>

/* As sonde_malloc_log_start and sonde_malloc_log_stop. BITS are RECORD_…. */
int log_start(const char *path, uint32_t bits);
int log_stop(void);

/* Begins a recording, of nothing for the time being; ends it, whatever is recorded. */
int log_begin(const char *path);
int log_end(void);

/* sensor/malloc/hooks.c: from now on calls of the allocator are told to the sensor, or no longer.
 */
int log_hooks_set(void);
void log_hooks_remove(void);

/* Regions are told of as well, from log_regions_set on; where only a recorder can do that, there
 * are none. */
bool log_has_regions(void);
void log_regions_set(void);

#endif
