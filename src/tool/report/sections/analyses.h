/* SPDX-License-Identifier: MIT
 *
 * The analyses of sections, for what is made of several of them. STATE is the state of the section,
 * which has received all events; the results live as long as it.
 */
#ifndef SONDE_REPORT_SECTIONS_ANALYSES_H
#define SONDE_REPORT_SECTIONS_ANALYSES_H

#include "analysis/crash.h"
#include "analysis/malloc/mappings.h"
#include "analysis/usage.h"
#include "report/audited.h"
#include "report/sections/stall_groups.h"

/* NULL: out of memory. */
const stall_groups_t *section_stall_groups(const report_t *report, void *state);
const audited_t *section_audit_programs(const report_t *report, void *state);

const usage_t *section_usage_readings(const void *state);
const mappings_t *section_vm_mappings(const void *state);
const crash_t *section_crash_record(const void *state);

#endif
