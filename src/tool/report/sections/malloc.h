/* SPDX-License-Identifier: MIT
 *
 * What the text and the JSON of the malloc section share.
 */
#ifndef SONDE_REPORT_SECTIONS_MALLOC_H
#define SONDE_REPORT_SECTIONS_MALLOC_H

#include "report/report.h"
#include "report/tree.h"

/* The totals of all stacks by the function or the library that owns them (frame_names_owner),
 * ranked. 0 or SONDE_ENOMEM. */
int malloc_groups(const report_t *report, bool by_library, aggregate_t *groups);

/* NULL without memory. */
tree_t *malloc_tree(const report_t *report);
json_object *malloc_json(const report_t *report);

#endif
