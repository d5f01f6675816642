/* SPDX-License-Identifier: MIT
 *
 * Hooks on every function that somebody wants, by name and library, as they turn up: what the
 * images import now and what images that are loaded later do.
 */
#ifndef SONDE_HOOK_FILTER_H
#define SONDE_HOOK_FILTER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hook_candidate {
  const char *name;
  const char *version;  /* "": none */
  const char *path;     /* of the image that defines it; "" for the program */
  uint64_t function;    /* its address; of an IFUNC, what its resolver answered */
  uint64_t in_library;  /* of that of PATH, which the agent may have one in front of */
  bool other_registers; /* aarch64: it passes arguments in registers of its own choice */
} hook_candidate_t;

/* Both are called under the hooks' lock with the loader held: no function of sonde/hook.h, no
 * loading of images. */
typedef struct hook_filter {
  /* May a function of this name be wanted? Asked for every import. NULL: none is. */
  bool (*may_want)(const char *name, void *context);
  /* The replacement for a function, or NULL. *ORIGINAL is set to where the address to go on with is
   * to be kept, as in sonde_hook_request_t. */
  void *(*replace)(const hook_candidate_t *candidate, void ***original, void *context);
  /* Images are there that were not before, relocated, their constructors not yet run. May be NULL.
   * It may be told of the same ones again. */
  void (*came)(void *context);
  void *context;
} hook_filter_t;

/* From now on FAMILY, which is kept, is asked, after those that are there: a function may be wanted
 * by several. Returns how many functions are hooked for it, or a negative SONDE_E…: EBUSY (also
 * when it is there, or HOOK_FAMILIES are), EUNSUPPORTED, ENOMEM. */
int hook_filter_add(const hook_filter_t *family);

/* From now on FAMILY, which is kept and wants no function, is told when images come, by `came`. Of
 * those that are there it is told with the first that comes. It waits for no lock that the program
 * or the loader may hold, but for another thread's use of hooks, 20 ms at most: false after that,
 * or when HOOK_FAMILIES are there. Of this copy's engine, and not in a signal handler. */
bool hook_filter_watch(const hook_filter_t *family);

/* Hooks on functions of given names, as soon as an image defines them. */
typedef struct hook_pending {
  const char *const *names;
  uint32_t count;
  /* As above; NUMBER of the name. Not asked of an IFUNC, which is not awaited. */
  void *(*replace)(const hook_candidate_t *candidate, uint32_t number, void ***original);
} hook_pending_t;

/* From now on AWAITED, which is kept, is looked for; one at a time. 0 or a negative SONDE_E…, as
 * above. */
int hook_pending_add(const hook_pending_t *awaited);
int hook_pending_remove(void);

#endif
