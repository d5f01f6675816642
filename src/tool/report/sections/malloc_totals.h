/* SPDX-License-Identifier: MIT
 *
 * The totals of section `malloc`, and which of its numbers a recording cannot know:
 *
 * - Snapshots (the mode `live`) contain live blocks alone: calls, and the peak, are unknown.
 * - Sampled blocks give estimates with an error. A realloc is recorded as a free and an allocation,
 *   and the thread's next call is usually not recorded: reallocs and temporary allocations are
 *   unknown.
 * - A limited recording (--limit) has lost its oldest events. Older blocks are unknown, so live
 *   blocks are a lower bound.
 */
#ifndef SONDE_REPORT_SECTIONS_MALLOC_TOTALS_H
#define SONDE_REPORT_SECTIONS_MALLOC_TOTALS_H

#include "report/report.h"
#include "report/table.h"

/* True if the recording has snapshots of live blocks and no events. */
static inline bool has_snapshots_only(const replay_t *p) { return p->snapshots && !p->events; }

/* The ticks from which on a limited recording is complete; 0: from its start. */
uint64_t malloc_covered_from(const report_t *report);

/* True if nothing is known about live blocks: no allocation is in a limited recording. */
bool malloc_live_is_unknown(const report_t *report);

/* Removes the columns whose values are unknown. */
void malloc_hide_unknown(const report_t *report, column_t *columns);

void malloc_totals_text(const report_t *report, FILE *out);
void malloc_totals_json(const report_t *report, json_object *object);

#endif
