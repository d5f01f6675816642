/* SPDX-License-Identifier: MIT
 *
 * Mode `live`: the live blocks, without history.
 *
 * A table of the recorder (record/live_table.h) holds each live block: its size, its stack, the
 * thread that allocated it, and the time. So memory is bounded by the live set.
 *
 * A free costs a look-up and a store, and captures no stack. A free that finds no block is counted:
 * its block was allocated before the mode was switched on.
 */
#ifndef SONDE_SENSOR_MALLOC_LIVE_H
#define SONDE_SENSOR_MALLOC_LIVE_H

#include "record/live_table.h"
#include "record/writer.h"

/* Prefetches the entry of ADDRESS, which live_table_put will write soon. */
void live_table_prefetch(const shm_control_t *control, uint64_t address);

/* Adds the block at ADDRESS. False if memory cannot be populated. */
bool live_table_put(shm_control_t *control, uint64_t address, const live_detail_t *block);

/* Removes the block at ADDRESS, before it is freed, and copies it to *OUT, which may be NULL. False
 * if it is not in the table. */
bool live_table_take(shm_control_t *control, uint64_t address, live_detail_t *out);

/* Finds the block that contains ADDRESS; its start address in *START. If ADDRESS is not the start
 * of a block, scans the whole table. False if there is none. */
bool live_table_find(shm_control_t *control, uint64_t address, uint64_t *start, live_detail_t *out);

/* Calls VISIT for each block, until it returns false. */
typedef bool live_visit_t(void *context, uint64_t address, const live_detail_t *block);
void live_table_each(shm_control_t *control, live_visit_t *visit, void *context);

/* Removes all blocks. No thread may add one meanwhile. */
void live_table_empty(shm_control_t *control);

/* Forgets the table of an earlier recording. The process must have one thread. */
void live_table_forget(void);

/* Unmaps the table and forgets it. No thread may be in an event. */
void live_table_unmap(void);

#endif
