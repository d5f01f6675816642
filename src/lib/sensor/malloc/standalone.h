/* SPDX-License-Identifier: MIT
 *
 * A recording of blocks that the program makes itself, without `sonde record`: its file, its shared
 * buffers and its hooks. Called by one thread at a time.
 */
#ifndef SONDE_SENSOR_MALLOC_STANDALONE_H
#define SONDE_SENSOR_MALLOC_STANDALONE_H

#include <stdbool.h>
#include <stdint.h>

/* As sonde_malloc_log_start and sonde_malloc_log_stop; BITS are RECORD_… bits. */
int malloc_standalone_start(const char *path, uint32_t bits);
int malloc_standalone_stop(void);

/* Begins a recording with mode 0; ends it. */
int malloc_standalone_begin(const char *path);
int malloc_standalone_end(void);

/* Add and remove the hooks that report the calls of the allocator to the sensor. 0 or a negative
 * SONDE_E…. */
int malloc_hooks_add(void);
void malloc_hooks_remove(void);

/* True if mappings can be reported too; and reports them from now on. */
bool malloc_hooks_see_mappings(void);
void malloc_hooks_add_mappings(void);

#endif
