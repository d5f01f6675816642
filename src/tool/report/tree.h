/* SPDX-License-Identifier: MIT
 *
 * A call tree by function: stacks with weights, merged where their functions are the same, read
 * from a thread's first function down or from the innermost one up.
 */
#ifndef SONDE_REPORT_TREE_H
#define SONDE_REPORT_TREE_H

#include "report/report.h"

typedef struct tree tree_t;

/* NULL without memory. The report must outlive it. */
tree_t *tree_new(const report_t *report);
void tree_free(tree_t *tree);

/* Adds a stack that weighs WEIGHT (negative where something shrank) in COUNT pieces. */
bool tree_add(tree_t *tree, uint32_t stack, int64_t weight, int64_t count);

/* The rows that matter: at least one part in a hundred of the whole, and the heaviest REPORT->top
 * of each function. BYTES: the weight is in bytes, else it is a number of UNIT. */
void tree_text(tree_t *tree, const char *title, bool bytes, const char *unit, FILE *out);
json_object *tree_json(tree_t *tree);

#endif
