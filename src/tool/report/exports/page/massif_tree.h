/* SPDX-License-Identifier: MIT
 *
 * The tree of a massif snapshot: bytes by the innermost function, below it by its callers.
 */
#ifndef SONDE_REPORT_EXPORTS_PAGE_MASSIF_TREE_H
#define SONDE_REPORT_EXPORTS_PAGE_MASSIF_TREE_H

#include "report/exports/page/names.h"

/* The live bytes of a stack of the recording. */
typedef struct page_amount {
  uint32_t stack;
  uint64_t bytes;
} page_amount_t;

typedef ARRAY(page_amount_t) page_amounts_t;

/* Writes the tree of STACKS. False: out of memory. */
bool massif_tree_write(page_names_t *names, const page_amounts_t *stacks, FILE *out);

#endif
