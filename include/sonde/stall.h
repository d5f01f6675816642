/* SPDX-License-Identifier: MIT
 *
 * Stalls, told by the program itself: for threads that are no event loop, or wait in a way that
 * cannot be seen from outside.
 *
 * Event loops that wait by epoll_wait, poll or select need nothing of this. These functions speak
 * to a program's recorder: under `sonde record --stall` they take effect, otherwise they return
 * SONDE_EUNSUPPORTED and cost a load and a branch. A thread that has called one of them is watched
 * by them alone: its waits do not count any more.
 *
 * All may be called by any thread, inside malloc and in a signal handler, and after fork, where
 * they are without effect: a child is not recorded. They return 0 or one of the statuses named.
 */
#ifndef SONDE_STALL_H
#define SONDE_STALL_H

#include <stdint.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread is alive: its turn ends and the next one begins. A thread that does not come
 * back within the threshold has stalled, until its next heartbeat or sonde_stall_end.
 * SONDE_EUNSUPPORTED: nobody listens; SONDE_EFULL: too many threads are watched. */
SONDE_API int sonde_heartbeat(void);

/* What follows must not take longer than LIMIT_MS milliseconds, 0 for the threshold of the
 * recording. A limit below the threshold is the threshold. Scopes do not nest: a second one ends
 * the first. Statuses as above. */
SONDE_API int sonde_stall_begin(uint32_t limit_ms);

/* The present turn may take LIMIT_MS milliseconds from its beginning: the program knows that it is
 * long, or waits for its user. To be called before the threshold is reached. For a turn of an event
 * loop as well, whose waits go on to count. SONDE_EINVAL: there is no turn. */
SONDE_API int sonde_stall_expect(uint32_t limit_ms);

/* The scope, or the thread's heartbeats, are over: it is not watched until it begins again. */
SONDE_API int sonde_stall_end(void);

#ifdef __cplusplus
}
#endif
#endif
