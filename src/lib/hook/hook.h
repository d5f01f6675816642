/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/hook.h in this copy of the library. The public functions call these, or
 * the agent's: see hook/agent_table.h.
 */
#ifndef SONDE_HOOK_HOOK_H
#define SONDE_HOOK_HOOK_H

#include "hook/filter.h"
#include "sonde/hook.h"

int hook_add_local(const sonde_hook_request_t *requests, size_t count, sonde_hook_t **hooks);
/* Hooks the first definition behind the image that starts at IMAGE_START, for good: slots that lead
 * past that image lead to the replacement. */
int hook_add_past(const sonde_hook_request_t *request, uint64_t image_start);
int hook_remove_local(sonde_hook_t *hook);
int hook_late_local(void);
/* Begins to listen for images that are loaded or unloaded, before the first hook. An image that is
 * to be unloaded then stays while another thread is in a function of this header, for at most 200
 * ms under an attached agent. */
void hook_watch_local(void);

/* Ends that, unless there are hooks: removing the last one ends it, too. */
void hook_unwatch_local(void);
int hook_refresh_local(void);
int hook_reach_local(const sonde_hook_t *hook,
                     int (*visit)(const sonde_slot_t *slot, void *context), void *context);
int hook_filter_add_local(const hook_filter_t *filter); /* filter.c */

#endif
