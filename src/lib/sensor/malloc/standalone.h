/* SPDX-License-Identifier: MIT
 *
 * A log of the program's own, without `sonde record`: a recording whose file, scratch and hooks the
 * program itself has made. Called by one thread at a time.
 */
#ifndef SONDE_SENSOR_MALLOC_STANDALONE_H
#define SONDE_SENSOR_MALLOC_STANDALONE_H

#include <stdbool.h>
#include <stdint.h>

/* As sonde_malloc_log_start and sonde_malloc_log_stop. BITS are RECORD_…. */
int malloc_standalone_start(const char *path, uint32_t bits);
int malloc_standalone_stop(void);

/* Begins a recording, of nothing for the time being; ends it, whatever is recorded. */
int malloc_standalone_begin(const char *path);
int malloc_standalone_end(void);

/* sensor/malloc/hooks.c: from now on calls of the allocator are told to the sensor, or no longer.
 */
int malloc_hooks_add(void);
void malloc_hooks_remove(void);

/* Regions are told of as well, from malloc_hooks_add_mappings on; where only a recorder can do
 * that, there are none. */
bool malloc_hooks_see_mappings(void);
void malloc_hooks_add_mappings(void);

#endif
