/* SPDX-License-Identifier: MIT
 *
 * Hooks: calls of a function by its name go to a function of yours instead.
 *
 * A call that leaves an image goes through a slot, a word that the dynamic loader filled with the
 * address of the function; so does a pointer to a function in a table. A hook writes its own
 * address into every such slot of that name: of procedure linkage (lazily bound or not), of
 * -fno-plt code, and of data. It cannot reach a call that passes no slot: within the image that
 * defines the function when it was linked with -Bsymbolic or the like, in a static program, and
 * through a pointer that the program copied before. sonde_hook_reach tells, slot by slot.
 *
 * dlsym and dlvsym, while there are hooks, answer with the hook, but for RTLD_NEXT: who asks for
 * the next definition is a wrapper that a hook may go on to.
 *
 * Which function: the first definition of the name in load order, of the version asked for or the
 * default one. A slot that is bound to another definition (another version, a library's own behind
 * RTLD_DEEPBIND, another namespace's of dlmopen) is left as it is and reported.
 *
 * On Apple's systems there are no versions, dlsym answers with the function itself, and slots that
 * hold signed pointers (arm64e) are left alone.
 *
 * All functions here may be called by any thread, but not in a signal handler, not in a
 * replacement that may run inside the dynamic loader (of malloc, for one), and not in the child of
 * a fork that was made while another thread was inside: they take a lock of their own and the lock
 * with which the loader keeps images from being unloaded. They allocate no memory with malloc and
 * leave errno alone. A replacement itself is called wherever the program calls the function.
 */
#ifndef SONDE_HOOK_H
#define SONDE_HOOK_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sonde_hook sonde_hook_t;

/* What to hook. */
typedef struct sonde_hook_request {
  const char *symbol;  /* the name as the linker knows it (mangled, in C++); at most 1023 bytes */
  const char *version; /* such as "GLIBC_2.2.5"; NULL: the default version */
  void *replacement;   /* called instead, with the very same arguments */
  /* Gets, before the first slot is written, the address to go on with: of the next older hook of
   * the same function, or the function itself. Read it anew at each call: it changes when the hook
   * behind is removed. It must stay valid for as long as the replacement may be called. */
  void **original;
  /* NULL, or says (not 0) whether calls from the image PATH are to be hooked; PATH is as the loader
   * has it, "" for the program. Called inside the functions of this header: it may not call them.
   * Hooks with a filter are called before those without one. */
  int (*wants)(const char *path, void *context);
  void *context;
} sonde_hook_request_t;

/* Sets COUNT hooks in one pass over all images; HOOKS, when not NULL, gets a handle for each.
 * Strings are copied. All or none: on failure no hook of these is set. SONDE_EINVAL for an argument
 * that is missing; SONDE_ENOTFOUND when a symbol is not defined in any image;
 * SONDE_EUNSUPPORTED in a static program; SONDE_ENOMEM; SONDE_EBUSY when called inside `wants`.
 * That a page cannot be made writable is no failure: sonde_hook_reach tells. */
SONDE_API int sonde_hook_add(const sonde_hook_request_t *requests, size_t count,
                             sonde_hook_t **hooks);

/* Takes HOOK away, whichever of several came first; what is left is called as before. The slots of
 * the last one are put back byte for byte, except those that somebody else has changed meanwhile.
 * Calls that are under way may still be in the replacement, and go on through `original`. HOOK is
 * not to be used any more. SONDE_ENOTFOUND when it is no hook, SONDE_EBUSY as above. */
SONDE_API int sonde_hook_remove(sonde_hook_t *hook);

/* Are images that are loaded from now on hooked by themselves, before any code of theirs runs but
 * the resolvers of IFUNCs? SONDE_OK: yes, also those of dlmopen, but for an image that has no
 * DT_INIT (linked with -nostartfiles); SONDE_EUNSUPPORTED: no hook is set, or this loader's
 * notification cannot be used (not where a debugger or another tool has put
 * something in its place): call sonde_hook_refresh after dlopen. */
SONDE_API int sonde_hook_late(void);

/* Hooks what images loaded since the last call import. Returns how many slots were written, or
 * SONDE_EBUSY. */
SONDE_API int sonde_hook_refresh(void);

typedef enum sonde_slot_kind {
  SONDE_SLOT_JUMP,     /* JUMP_SLOT: calls through the procedure linkage table */
  SONDE_SLOT_GLOB_DAT, /* GLOB_DAT: calls of -fno-plt code, and taken addresses */
  SONDE_SLOT_DATA,     /* a pointer in data */
  SONDE_SLOT_NONE,     /* no slot: something that cannot be reached */
} sonde_slot_kind_t;

typedef enum sonde_slot_state {
  SONDE_SLOT_HOOKED,
  SONDE_SLOT_UNWANTED,   /* the filter does not want this image */
  SONDE_SLOT_SHADOWED,   /* a newer hook with another filter has it and does not come by here */
  SONDE_SLOT_ELSEWHERE,  /* bound to another definition of the name, which was left alone */
  SONDE_SLOT_FOREIGN,    /* somebody else has changed it since, which was left alone */
  SONDE_SLOT_PROTECTED,  /* its page could not be made writable */
  SONDE_SLOT_WITHIN,     /* no slot: the image that defines the function calls it directly */
  SONDE_SLOT_UNREADABLE, /* no slot: an image without a usable dynamic section */
} sonde_slot_state_t;

typedef struct sonde_slot {
  const char *path;               /* of the image; "" for the program. Valid until VISIT returns */
  uintptr_t address;              /* of the slot; 0 for none */
  uintptr_t old_value, new_value; /* before all hooks, and now */
  sonde_slot_kind_t kind;
  sonde_slot_state_t state;
} sonde_slot_t;

/* Calls VISIT with each slot of the symbol of HOOK in the images that are loaded now, and with what
 * is known not to be reached, until it returns anything but 0. VISIT runs inside: it may call
 * nothing of this header, load no image and unload none. Pointers that the program copied before
 * the hook was set are not found. Returns how many are hooked, SONDE_ENOTFOUND or SONDE_EBUSY. */
SONDE_API int sonde_hook_reach(const sonde_hook_t *hook,
                               int (*visit)(const sonde_slot_t *slot, void *context),
                               void *context);

/* What a state means, in words. Static; may be called anywhere. */
SONDE_API const char *sonde_slot_state_text(sonde_slot_state_t state);

#ifdef __cplusplus
}
#endif
#endif
