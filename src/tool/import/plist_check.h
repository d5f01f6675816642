/* SPDX-License-Identifier: MIT
 *
 * Is a property list one that libplist can be given? libplist 2.2 makes a tree of it: an object
 * that is named a million times becomes a million nodes, and a chain of 50,000 arrays takes it half
 * a minute and a stack of its own. So what a list would become is counted before: nodes, depth,
 * bytes.
 */
#ifndef SONDE_IMPORT_PLIST_CHECK_H
#define SONDE_IMPORT_PLIST_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* Does it begin as a property list, binary or XML? */
bool plist_is(const uint8_t *data, uint64_t size);

/* NULL, or what is wrong with it. The nodes it would have, 1,048,576 at most, are taken from
 * *BUDGET, that lists in lists have together. Time and memory follow SIZE. */
const char *plist_check(const uint8_t *data, uint64_t size, uint64_t *budget);

#endif
