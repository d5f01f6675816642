/* SPDX-License-Identifier: MIT
 *
 * Hooks: calls of a function by its name reach your function instead.
 *
 * A call that leaves an image goes through an import slot: a word that the dynamic loader filled
 * with the function's address. A pointer to a function in a table is such a slot too. A hook writes
 * the address of the replacement into every import slot of that name: slots of the procedure
 * linkage table (lazily bound or not), of -fno-plt code, and of data. sonde_hook_reach reports
 * every slot. Calls that use no slot are not hooked:
 *   - calls inside the defining image, if that image was linked with -Bsymbolic or the like;
 *   - calls in a static program;
 *   - calls through a pointer that the program copied before the hook was installed.
 *
 * While hooks are installed, dlsym and dlvsym return the replacement, except for RTLD_NEXT, which
 * wrappers use to reach the next definition.
 *
 * A hook applies to the first definition of the name in load order, in the requested or the default
 * version. Slots bound to another definition are left unchanged and reported: another version, a
 * library's own function behind RTLD_DEEPBIND, or a function of another dlmopen namespace.
 *
 * On Apple's systems there are no versions, dlsym returns the function itself, and slots that hold
 * signed pointers (arm64e) are left unchanged.
 *
 * All functions here may be called by any thread, except: in a signal handler; in a replacement
 * that may run inside the dynamic loader (of malloc, for example); in the child of a fork that was
 * made while another thread was in one of these functions. These functions take a lock of sonde and
 * the lock with which the loader prevents unloading. They do not call malloc and do not change
 * errno. A replacement runs wherever the program calls the function.
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
  /* The name as the linker knows it (mangled, in C++); at most 1023 bytes. */
  const char *symbol;
  /* For example "GLIBC_2.2.5"; NULL: the default version. */
  const char *version;
  /* Called instead, with the same arguments. */
  void *replacement;
  /* Set before the first slot is written: the function to call as the original, which is the next
   * older hook of the same function, or the function itself. Read the variable at each call,
   * because its value changes when that older hook is removed. The variable must exist as long as
   * the replacement may be called. */
  void **original;
  /* NULL, or a filter: returns nonzero if calls from the image PATH are to be hooked. PATH is the
   * loader's path, "" for the program. The filter runs inside functions of this header and must not
   * call them. Hooks with a filter are called before hooks without one. */
  int (*wants)(const char *path, void *context);
  void *context;
} sonde_hook_request_t;

/* Installs COUNT hooks in one pass over all images. HOOKS, if not NULL, receives a handle for each.
 * Strings are copied. Either all hooks are installed or none. Returns SONDE_OK; SONDE_EINVAL if an
 * argument is missing; SONDE_ENOTFOUND if no image defines a symbol; SONDE_EUNSUPPORTED in a static
 * program; SONDE_ENOMEM; SONDE_EBUSY inside `wants`. A page that cannot be made writable is not an
 * error; sonde_hook_reach reports it. */
SONDE_API int sonde_hook_add(const sonde_hook_request_t *requests, size_t count,
                             sonde_hook_t **hooks);

/* Removes HOOK. Other hooks of the function stay installed; they can be removed in any order. When
 * the last hook is removed, the slots get their old values, except slots that other code has
 * changed. Calls in progress may still be in the replacement, and continue through `original`. HOOK
 * is invalid afterwards. Returns SONDE_OK; SONDE_ENOTFOUND if HOOK is not a hook; SONDE_EBUSY. */
SONDE_API int sonde_hook_remove(sonde_hook_t *hook);

/* Returns SONDE_OK if newly loaded images are hooked automatically, before any of their code except
 * IFUNC resolvers runs. This includes dlmopen, but not images without DT_INIT (linked with
 * -nostartfiles). Returns SONDE_EUNSUPPORTED if no hook is installed, or if the loader's
 * notification function cannot be used, for example because a debugger has patched it: then call
 * sonde_hook_refresh after dlopen. */
SONDE_API int sonde_hook_late(void);

/* Hooks the imports of images loaded since the last call. Returns the number of slots written,
 * SONDE_EBUSY or SONDE_ENOMEM. */
SONDE_API int sonde_hook_refresh(void);

typedef enum sonde_slot_kind {
  SONDE_SLOT_JUMP,     /* JUMP_SLOT: calls through the procedure linkage table */
  SONDE_SLOT_GLOB_DAT, /* GLOB_DAT: calls of -fno-plt code, and taken addresses */
  SONDE_SLOT_DATA,     /* a pointer in data */
  SONDE_SLOT_NONE,     /* no slot: the report of an image that cannot be hooked */
} sonde_slot_kind_t;

typedef enum sonde_slot_state {
  SONDE_SLOT_HOOKED,
  SONDE_SLOT_UNWANTED,   /* the filter excludes this image */
  SONDE_SLOT_SHADOWED,   /* a newer hook with another filter uses the slot and bypasses this one */
  SONDE_SLOT_ELSEWHERE,  /* bound to another definition of the name; left unchanged */
  SONDE_SLOT_FOREIGN,    /* other code has changed the slot since; left unchanged */
  SONDE_SLOT_PROTECTED,  /* its page could not be made writable */
  SONDE_SLOT_WITHIN,     /* no slot: the defining image calls the function directly */
  SONDE_SLOT_UNREADABLE, /* no slot: the image has no usable dynamic section */
} sonde_slot_state_t;

typedef struct sonde_slot {
  const char *path;               /* of the image; "" for the program. Valid until VISIT returns */
  uintptr_t address;              /* of the slot; 0 for none */
  uintptr_t old_value, new_value; /* before all hooks, and now */
  sonde_slot_kind_t kind;
  sonde_slot_state_t state;
} sonde_slot_t;

/* Calls VISIT for each slot of HOOK's symbol in the images that are loaded now, and for images that
 * cannot be hooked. Stops when VISIT returns nonzero. VISIT must not call functions of this header,
 * and must not load or unload images. Pointers that the program copied before the hook was
 * installed are not found. Returns the number of hooked slots, SONDE_ENOTFOUND, SONDE_EINVAL or
 * SONDE_EBUSY. */
SONDE_API int sonde_hook_reach(const sonde_hook_t *hook,
                               int (*visit)(const sonde_slot_t *slot, void *context),
                               void *context);

/* Returns the text of STATE. The text is static. May be called anywhere. */
SONDE_API const char *sonde_slot_state_text(sonde_slot_state_t state);

#ifdef __cplusplus
}
#endif
#endif
