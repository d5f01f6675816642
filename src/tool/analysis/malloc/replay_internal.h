/* SPDX-License-Identifier: MIT
 *
 * What the replay shares with those who fill one by other means.
 */
#ifndef SONDE_ANALYSIS_MALLOC_REPLAY_INTERNAL_H
#define SONDE_ANALYSIS_MALLOC_REPLAY_INTERNAL_H

#include "analysis/malloc/replay.h"

/* The totals of a stack or a thread, new ones where there are none; NULL without memory. Pointers
 * hold until the next call. */
stack_totals_t *replay_stack(replay_t *replay, uint32_t id);
thread_totals_t *replay_thread(replay_t *replay, uint32_t stream);

/* The first tick that is not before NS. */
uint64_t replay_tick(const reader_t *reader, uint64_t ns);

#endif
