/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/audit.h, through the table that has the recording. sonde_audit_phase is a
 * mark: log_public.c.
 */
#include "sonde/audit.h"

#include "sensor/malloc/api.h"

int sonde_audit_start(const void *policy, size_t size, const char *path) {
  return policy ? malloc_api()->audit_start(policy, size, path) : SONDE_EINVAL;
}

int sonde_audit_stop(void) { return malloc_api()->audit_stop(); }
