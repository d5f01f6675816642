/* SPDX-License-Identifier: MIT
 *
 * Hooks of functions that a filter selects by name and library, in all images that are loaded now
 * or later.
 */
#ifndef SONDE_HOOK_FILTER_H
#define SONDE_HOOK_FILTER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hook_candidate {
  const char *name;
  const char *version; /* "": none */
  const char *path;    /* of the defining image; "" for the program */
  uint64_t function;   /* its address; of an IFUNC, the result of its resolver */
  /* The address of the definition in PATH; it differs if the agent interposes the function. */
  uint64_t in_library;
  bool other_registers; /* aarch64: it has a variant calling convention */
} hook_candidate_t;

/* The callbacks run under the hooks' lock and the loader's lock: they must not call functions of
 * sonde/hook.h or load images. */
typedef struct hook_filter {
  /* Returns true if a function of this name may be hooked; called for every import. NULL: none. */
  bool (*may_match)(const char *name, void *context);
  /* Returns the replacement for a function, or NULL. Sets *ORIGINAL to the variable for the
   * original's address, as in sonde_hook_request_t. */
  void *(*replace)(const hook_candidate_t *candidate, void ***original, void *context);
  /* New images are loaded and relocated; their constructors have not run yet. Images may be
   * reported twice. NULL: not called. */
  void (*on_images)(void *context);
  void *context;
  /* Slots from which code takes a function's address stay, so that two images that compare it find
   * it equal. Code that keeps the address in a register to call it is not told apart. */
  bool calls_only;
} hook_filter_t;

/* Adds FILTER, which must stay valid; several filters may hook the same function. Returns the
 * number of functions hooked for it, or a negative SONDE_E…: EBUSY (also if it was added before, or
 * HOOK_FILTERS exist), EUNSUPPORTED, ENOMEM. */
int hook_filter_add(const hook_filter_t *filter);

/* Removes FILTER, which hook_filter_add has added in this copy of the library, and its hooks: their
 * slots are as the loader would have them. A call in progress may still reach a replacement.
 * Returns 0, or SONDE_ENOTFOUND. */
int hook_filter_remove_local(const hook_filter_t *filter);

/* Adds FILTER, which must stay valid and hooks no function: only on_images is called. Images that
 * are loaded already are reported with the next new one. Takes no lock of the program or the
 * loader; waits for another thread's use of hooks for at most 20 ms. Returns false on timeout, or
 * if HOOK_FILTERS exist. Acts on this copy of the library only. Not in a signal handler. */
bool hook_filter_watch(const hook_filter_t *filter);

/* Removes FILTER, which hook_filter_watch has added. Returns false if it was not. */
bool hook_filter_unwatch(const hook_filter_t *filter);

/* Hooks of functions that no image may define yet. */
typedef struct hook_pending {
  const char *const *names;
  uint32_t count;
  /* As in hook_filter_t; NUMBER is the index of the name. Not called for IFUNCs. */
  void *(*replace)(const hook_candidate_t *candidate, uint32_t number, void ***original);
} hook_pending_t;

/* Hooks the functions of PENDING, which must stay valid, as soon as an image defines them. Only one
 * set at a time. Returns 0 or a negative SONDE_E…, as above. */
int hook_pending_add(const hook_pending_t *pending);
int hook_pending_remove(void);

#endif
