/* SPDX-License-Identifier: MIT
 *
 * The functions behind sonde/malloc.h and sonde_audit_phase, as one copy of this code implements
 * them.
 *
 * A program under `sonde record` that links libsonde has two copies, libsonde's and the agent's.
 * The agent's copy owns the recording, so the public functions call the agent if it is there
 * (hook/agent_table.h).
 */
#ifndef SONDE_SENSOR_MALLOC_API_H
#define SONDE_SENSOR_MALLOC_API_H

#include "sensor/malloc/malloc.h"
#include "sonde/malloc.h"

/* As sonde_malloc_log_mode, sonde_malloc_of and sonde_malloc_each. */
int malloc_api_mode(sonde_malloc_mode_t mode);
int malloc_api_of(const void *address, sonde_block_t *block);
int64_t malloc_api_each(int (*visit)(const sonde_block_t *block, void *context), void *context);

/* As sonde_alloc_event, sonde_free_event and sonde_mark; CALL is a pool_call_t, AT the caller. */
int malloc_api_pool(int call, const void *address, size_t size, const caller_t *at);
int malloc_api_marker(const char *name, const caller_t *at);

bool malloc_api_is_recording(void);

/* RECORD_… bits of MODE; false when there is no such mode. */
bool malloc_api_mode_bits(sonde_malloc_mode_t mode, uint32_t *bits);

/* Writes what is live into the calling thread's stream, as the recorder does in its own. */
void malloc_api_snapshot(snapshot_reason_t reason);

/* From now on BITS are recorded, in a recording that has no recorder. */
void malloc_api_switch(uint32_t bits);

#endif
