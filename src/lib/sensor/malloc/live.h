/* SPDX-License-Identifier: MIT
 *
 * Blocks without history: mode `live`. What is recorded is what is live, in a table of the
 * recorder's (record/live_table.h), so memory is bounded by the live set and nothing grows with
 * time. Each block has its size, the stack and the thread that asked for it, and the time.
 *
 * A free costs a look-up and a store, and no capture: nothing would keep its stack. One that finds
 * no block is of one that was given out before the mode was switched on, and is counted.
 */
#ifndef SONDE_SENSOR_MALLOC_LIVE_H
#define SONDE_SENSOR_MALLOC_LIVE_H

#include "record/live_table.h"
#include "record/writer.h"

/* The block at ADDRESS will be entered soon: its place is fetched into the cache meanwhile. */
void live_table_prefetch(const shm_control_t *control, uint64_t address);

/* Enters the block at ADDRESS. False without memory. */
bool live_table_put(shm_control_t *control, uint64_t address, const live_detail_t *block);

/* Takes the block at ADDRESS out, before it is freed; what was known of it in *OUT, which may be
 * NULL. False when it is not there. */
bool live_table_take(shm_control_t *control, uint64_t address, live_detail_t *out);

/* The block that holds ADDRESS, its start in *START. Where it is no block's start, every block is
 * looked at. False when there is none. */
bool live_table_find(shm_control_t *control, uint64_t address, uint64_t *start, live_detail_t *out);

/* Calls VISIT for each block there is, until it returns false. */
typedef bool live_visit_t(void *context, uint64_t address, const live_detail_t *block);
void live_table_each(shm_control_t *control, live_visit_t *visit, void *context);

/* Takes all blocks out. While none is put in. */
void live_table_empty(shm_control_t *control);

/* The recording this process now writes has another table. While there is one thread. */
void live_table_forget(void);

#endif
