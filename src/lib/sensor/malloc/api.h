/* SPDX-License-Identifier: MIT
 *
 * What stands behind sonde/malloc.h and sonde/audit.h. A program under `sonde record` that links
 * libsonde has two copies of this code, the library's and the agent's. The recording is the
 * agent's; so the agent shows a table of its own functions (agent/log.c) under a name that libsonde
 * looks for, once, and every public function goes through a table: the agent's, or else its own.
 */
#ifndef SONDE_SENSOR_MALLOC_API_H
#define SONDE_SENSOR_MALLOC_API_H

#include "sensor/malloc/malloc.h"
#include "sonde/malloc.h"

#define MALLOC_API_NAME    "libsonde_agent_log"
#define MALLOC_API_VERSION 2u

typedef struct malloc_api {
  uint32_t version, size;
  int (*mode)(sonde_malloc_mode_t mode);
  int (*of)(const void *address, sonde_block_t *block);
  int64_t (*each)(int (*visit)(const sonde_block_t *block, void *context), void *context);
  int (*stack)(uint32_t stack, uintptr_t *pcs, int max);
  /* CALL is a pool_call_t. */
  int (*pool)(int call, const void *address, size_t size, const caller_t *at);
  int (*mark)(const char *name, const caller_t *at);
  int (*audit_start)(const void *policy, size_t size, const char *path);
  int (*audit_stop)(void);
} malloc_api_t;

extern HIDDEN const malloc_api_t malloc_api_own;

/* The table of who has the recording. */
const malloc_api_t *malloc_api(void);

bool malloc_api_is_recording(void);

/* RECORD_… bits of MODE; false when there is no such mode. */
bool malloc_api_mode_bits(sonde_malloc_mode_t mode, uint32_t *bits);

/* Writes what is live into the calling thread's stream, as the recorder does in its own. */
void malloc_api_snapshot(snapshot_reason_t reason);

/* From now on BITS are recorded, in a recording that has no recorder. */
void malloc_api_switch(uint32_t bits);

#endif
