/* SPDX-License-Identifier: MIT
 *
 * One engine writes the slots of a process.
 *
 * A recorded program that is linked with libsonde has the code of src/hook twice, and two that know
 * nothing of each other could not share a slot: to each, what the other has written is somebody
 * else's. So the agent shows its functions under a name of its own, and every other copy passes on
 * to them what it is asked. Hooks of the program, of the recorder's tracer and of its audit are
 * then links of one chain, and the loader's function leads to one of us.
 */
#ifndef SONDE_HOOK_ENGINE_H
#define SONDE_HOOK_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/bits.h"
#include "hook/filter.h"
#include "sonde/hook.h"

#define HOOK_ENGINE_NAME    "libsonde_agent_hooks"
#define HOOK_ENGINE_VERSION 1u

/* The functions are those of sonde/hook.h and hook/filter.h. */
typedef struct hook_engine {
  uint32_t version, size;
  void (*prepare)(void); /* called before the first of the others; may be NULL */
  int (*add)(const sonde_hook_request_t *requests, size_t count, sonde_hook_t **hooks);
  int (*remove)(sonde_hook_t *hook);
  int (*late)(void);
  int (*refresh)(void);
  int (*reach)(const sonde_hook_t *hook, int (*visit)(const sonde_slot_t *slot, void *context),
               void *context);
  int (*follow)(const hook_filter_t *family);
} hook_engine_t;

/* This copy's own, in hook.c and family.c. */
int hooks_add_here(const sonde_hook_request_t *requests, size_t count, sonde_hook_t **hooks);
int hooks_remove_here(sonde_hook_t *hook);
int hooks_late_here(void);
int hooks_refresh_here(void);
int hooks_reach_here(const sonde_hook_t *hook,
                     int (*visit)(const sonde_slot_t *slot, void *context), void *context);
int hooks_follow_here(const hook_filter_t *family);

#define HOOK_OWN_ENGINE(prepare)                                                                   \
  {                                                                                                \
    HOOK_ENGINE_VERSION, sizeof(hook_engine_t), prepare, hooks_add_here, hooks_remove_here,        \
        hooks_late_here, hooks_refresh_here, hooks_reach_here, hooks_follow_here                   \
  }

#endif
