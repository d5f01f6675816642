/* SPDX-License-Identifier: MIT
 *
 * Deletes old sessions of a database. What only they referred to goes too: stacks, frames, names,
 * causes, images, builds and devices. The totals are those of the sessions that remain.
 */
#ifndef SONDE_STORE_RETENTION_H
#define SONDE_STORE_RETENTION_H

#include "store/engine.h"

/* Deletes the sessions of days before DAY, counted since 1970, and counts them in DROPPED. It
 * begins a transaction, which the caller commits, or rolls back after a failure. */
bool retention_drop(engine_t *engine, int64_t day, uint64_t *dropped);

#endif
