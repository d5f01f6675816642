/* SPDX-License-Identifier: MIT
 *
 * Checks a property list before libplist reads it. libplist 2.2 builds a tree: an object with a
 * million references becomes a million nodes, and a chain of 50,000 arrays takes half a minute and
 * overflows the stack. So this check counts the nodes, depth and bytes of the tree first.
 */
#ifndef SONDE_IMPORT_PLIST_CHECK_H
#define SONDE_IMPORT_PLIST_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether DATA begins like a property list, binary or XML. */
bool plist_is(const uint8_t *data, uint64_t size);

/* Returns NULL or an error message. Subtracts the nodes of the tree, at most 1,048,576, from
 * *BUDGET, which nested lists share. Time and memory are proportional to SIZE. */
const char *plist_check(const uint8_t *data, uint64_t size, uint64_t *budget);

#endif
