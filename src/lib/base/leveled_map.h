/* SPDX-License-Identifier: MIT
 *
 * The memory of a level of a table that grows (base/leveled_table.h). Whoever finds a level missing
 * maps it; of several who do, one wins and the others give theirs back, so nobody waits.
 */
#ifndef SONDE_BASE_LEVELED_MAP_H
#define SONDE_BASE_LEVELED_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* The memory of a level of 2^BITS slots of SLOT_BYTES, mapped by whoever comes first. With
 * POPULATED its pages are there at once: entries are scattered over a level, and a page fault for
 * each costs more than finding out what to put there. NULL when there is no memory.
 * Async-signal-safe. */
void *leveled_map(void **level, unsigned bits, size_t slot_bytes, bool populated);

#endif
