/* SPDX-License-Identifier: MIT
 *
 * Hooks on every function that somebody wants, by name and library, as they turn up: what the
 * images import now and what images that are loaded later do.
 */
#ifndef SONDE_HOOK_FAMILY_H
#define SONDE_HOOK_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hook_candidate {
  const char *name;
  const char *version;  /* "": none */
  const char *path;     /* of the image that defines it; "" for the program */
  uint64_t function;    /* its address; of an IFUNC, what its resolver answered */
  bool other_registers; /* aarch64: it passes arguments in registers of its own choice */
} hook_candidate_t;

/* Both are called under the hooks' lock with the loader held: no function of sonde/hook.h, no
 * loading of images. */
typedef struct hook_family {
  /* May a function of this name be wanted? Asked for every import. */
  bool (*may_want)(const char *name, void *context);
  /* The replacement for a function, or NULL. *ORIGINAL is set to where the address to go on with is
   * to be kept, as in sonde_hook_request_t. */
  void *(*replace)(const hook_candidate_t *candidate, void ***original, void *context);
  void *context;
} hook_family_t;

/* From now on FAMILY, which is kept, is asked; there is one at a time. Returns how many functions
 * are hooked, or a negative SONDE_E…: EBUSY (also when there is a family), EUNSUPPORTED, ENOMEM. */
int hooks_follow(const hook_family_t *family);

/* Removes all its hooks. */
int hooks_unfollow(void);

#endif
