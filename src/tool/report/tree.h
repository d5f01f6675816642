/* SPDX-License-Identifier: MIT
 *
 * A call tree by function: stacks with weights, merged where their functions are the same. The
 * report's direction decides whether it starts at threads' first functions or at innermost ones.
 */
#ifndef SONDE_REPORT_TREE_H
#define SONDE_REPORT_TREE_H

#include "report/report.h"

typedef struct tree tree_t;

/* Adds the stacks of CONTEXT with tree_add; false: out of memory. */
typedef bool tree_fill_fn(tree_t *tree, const void *context);

/* Adds a stack of WEIGHT (negative if it shrank) and COUNT items; false: out of memory. */
bool tree_add(tree_t *tree, uint32_t stack, int64_t weight, int64_t count);

/* Prints the tree that FILL makes: nodes of at least 1 % of the whole, and of each node at most
 * REPORT->top children. UNIT names what weights count; NULL: bytes. Returns 0 or SONDE_ENOMEM. */
int tree_print(const report_t *report, tree_fill_fn *fill, const void *context, const char *title,
               const char *unit, FILE *out);

/* Adds "tree" to OBJECT; nothing if memory is short. */
void tree_add_json(const report_t *report, tree_fill_fn *fill, const void *context,
                   json_object *object);

#endif
