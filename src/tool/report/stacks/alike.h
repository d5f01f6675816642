/* SPDX-License-Identifier: MIT
 *
 * Stacks that a report prints alike. One line of source may have several call instructions: after a
 * loop was unrolled, or a call was copied into several branches. Each makes a stack of its own,
 * with the same functions, files and lines. Users see one place, so lists have one row for it.
 */
#ifndef SONDE_REPORT_STACKS_ALIKE_H
#define SONDE_REPORT_STACKS_ALIKE_H

#include "base/hash.h"
#include "report/report.h"

/* Groups of items: those with equal texts whose stacks are printed alike. It begins as zeros. */
typedef struct alike {
  struct alike_item *items;
  size_t count, capacity;
  hash_index_t index;
} alike_t;

/* Adds an item. Sets *GROUP to the number of its group: groups are numbered from 0, in the order of
 * their first items. REPORT names STACK. REPORT and TEXT must outlive ALIKE. False: out of memory.
 */
bool alike_add(alike_t *alike, const report_t *report, uint32_t stack, const char *text,
               size_t *group);
void alike_free(alike_t *alike);

#endif
