/* SPDX-License-Identifier: MIT
 *
 * The state of the hooks: what is hooked, and its slots.
 *
 * Everything here is used under the lock of hook.c. Functions that examine images run while the
 * loader is held (os_loader_hold).
 */
#ifndef SONDE_HOOK_INTERNAL_H
#define SONDE_HOOK_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/patch.h"
#include "image/import_slots.h"
#include "os/os.h"
#include "sonde/hook.h"

#define HOOK_NAME_MAX    1024u
#define HOOK_VERSION_MAX 256u
#define HOOK_NONE        UINT32_MAX
#define DLSYM_HOOKS      2

typedef struct symbol symbol_t;

#define HOOK_FILTERS 3u

/* What installed a hook: sonde_hook_add, a hook_filter_t (hook/filter.h), or hook_pending_add.
 * Hooks of the latter two are removed with the image that defines the function. */
enum { HOOK_REQUESTED, HOOK_OF_FILTER, HOOK_OF_PENDING = HOOK_OF_FILTER + HOOK_FILTERS };

struct sonde_hook {
  symbol_t *symbol;             /* NULL: this hook is free */
  sonde_hook_t *next;           /* the next in the chain, or the next free one */
  sonde_hook_request_t request; /* its strings are the caller's; the symbol has copies */
  uint8_t owner;                /* HOOK_… */
  bool calls_only;              /* as in hook_filter_t */
};

/* A hooked function: one definition. */
struct symbol {
  symbol_t *next;      /* of all, or of the free ones */
  symbol_t *same_hash; /* in its bucket */
  sonde_hook_t *first; /* hooks with `wants`, then those without; newest first in each group */
  uint64_t original;   /* its address; of an IFUNC, the result of its resolver */
  /* The PLT stub that a program linked at a fixed address uses as the function's address; 0:
   * none. */
  uint64_t canonical;
  uint64_t definer;    /* start of the image that defines it */
  uint32_t slots;      /* its first place, or HOOK_NONE */
  uint32_t hash;       /* of its name */
  bool is_new;         /* images have not been searched for it */
  uint8_t owner;       /* bits 1 << HOOK_… of its hooks */
  uint32_t text_bytes; /* allocated for `name` and `version`; a free symbol keeps them */
  char *name;
  char *version; /* "": none */
};

#define HOOK_BUCKETS 4096u

/* A loaded image. */
typedef struct known_image {
  os_image_t image;
  import_slots_t slots;
  uint32_t path_hash;
  bool has_slots;  /* its dynamic section is usable */
  uint32_t number; /* never reused */
  bool is_present;
  bool is_searched;     /* for all symbols that are not new */
  bool is_partial;      /* some of its places may be from a search before relocation */
  bool has_unread;      /* hooks_read_code has not seen some of its places */
  uint8_t filters_done; /* bits of the filters that have seen its imports */
} known_image_t;

/* A slot of a symbol. */
typedef struct place {
  symbol_t *symbol; /* NULL: free */
  uint64_t address, old_value, new_value;
  uint32_t image; /* `number` of its image */
  uint32_t next;  /* index of the next of the same symbol, or free one */
  uint8_t kind, state;
  bool is_taken; /* code may take the function's address from it, not only call through it */
} place_t;

typedef struct hooks {
  symbol_t *symbols, *free_symbols;
  symbol_t *buckets[HOOK_BUCKETS];
  sonde_hook_t *free_hooks;
  known_image_t *images;
  uint32_t image_count, image_capacity, next_number;
  uint64_t epoch; /* of the loader when its images were scanned; 0: unknown */
  place_t *places;
  uint32_t place_count, place_capacity, free_place;
  patcher_t patcher;
  slot_names_t names;             /* of all symbols; read without the lock, too */
  sonde_hook_t *own[DLSYM_HOOKS]; /* of dlsym.c; NULL: not set */
  uint32_t installed;             /* hooks, except those of dlsym.c */
  uint32_t written;               /* slots; hook.c resets it */
  bool out_of_memory;             /* something is incomplete */
  bool force_writes;              /* write slots of an image that is being loaded, too */
  bool has_deferred;              /* such slots were not written */
} hooks_t;

/* hook/arena.c */
symbol_t *hooks_new_symbol(hooks_t *hooks);
bool hooks_name_symbol(symbol_t *symbol, const char *name, const char *version);
/* Adds and returns FRESH. If its definition has a symbol already, frees FRESH and returns that
 * symbol. */
symbol_t *hooks_intern(hooks_t *hooks, symbol_t *fresh);
sonde_hook_t *hooks_new_hook(hooks_t *hooks);
bool hooks_is_hook(const sonde_hook_t *hook);
place_t *hooks_new_place(hooks_t *hooks, symbol_t *symbol);
bool hooks_add_image(hooks_t *hooks, const os_image_t *image);
void hooks_free_hook(hooks_t *hooks, sonde_hook_t *hook);
void hooks_free_symbol(hooks_t *hooks, symbol_t *symbol); /* with its places */

/* hook/scan.c: loaded and unloaded images, and the slots of new symbols. */
void hooks_scan_images(hooks_t *hooks);
void hooks_scan_slots(hooks_t *hooks);
void hooks_search_again(hooks_t *hooks, known_image_t *known); /* at the next scan */
const known_image_t *hooks_image(const hooks_t *hooks, uint32_t number);
const char *image_path(const os_image_t *image);

uint32_t hooks_hash(const char *name);

/* The first symbol of HASH's bucket; `same_hash` links the others. */
static inline symbol_t *hooks_bucket(const hooks_t *hooks, uint32_t hash) {
  return hooks->buckets[hash % HOOK_BUCKETS];
}

/* hook/linux/resolve.c: finds the definition of NAME and fills in SYMBOL, except for its chain.
 * PAST: only images behind the one that starts there; 0: all. Returns false if no image of the
 * program's namespace defines it. */
bool hooks_resolve(const hooks_t *hooks, const char *name, const char *version, uint64_t past,
                   symbol_t *symbol);

/* hook/linux/taken.c: finds the places of the image that its code only calls through. */
bool hooks_may_be_taken(slot_kind_t kind);
void hooks_read_code(hooks_t *hooks, const known_image_t *known);

/* hook/filter.c: true if a filter hooks only calls. */
bool filter_has_calls_only(void);

/* hook/chain.c */
void hooks_link(sonde_hook_t *hook);
void hooks_unlink(sonde_hook_t *hook);
void hooks_apply(hooks_t *hooks); /* writes every slot as the chains require */
/* The hook that the image PATH gets, or NULL. IS_TAKEN: as an address, not only for calls. */
const sonde_hook_t *hooks_first_for(const symbol_t *symbol, const char *path, bool is_taken);
bool hooks_chain_reaches(const sonde_hook_t *first, const sonde_hook_t *hook);

/* hook/linux/dlopen.c: images that are loaded later, hooked before their constructors run. */
void dlopen_start(hooks_t *hooks);
void dlopen_stop(hooks_t *hooks); /* restores the loader's code */
bool dlopen_in_force(void);
/* True if the loader may still call this code although there are no hooks, or read its memory. */
bool dlopen_may_enter(void);
/* True once after the loader announced a change while the lock was taken. */
bool dlopen_take_missed(void);
void dlopen_catch_up(hooks_t *hooks);
/* True once after an image could not be hooked when it was loaded. */
bool dlopen_take_retry(void);

/* hook/linux/loader_jump.c: patches the loader's function to jump to TO, if possible. */
void loader_jump_start(hooks_t *hooks, void (*to)(void));
void loader_jump_stop(hooks_t *hooks);
bool loader_jump_in_force(void);
bool loader_jump_may_enter(void); /* a thread of the loader may still come to TO */

/* hook/dlsym.c: the hooks of dlsym and dlvsym, installed together with the first other hook. An
 * attached agent replaces their replacements by gates before that. */
extern sonde_hook_request_t dlsym_requests[DLSYM_HOOKS];

/* hook/filter.c: adds a hook of OWNER to the resolved symbol FRESH, or to an older symbol of that
 * definition. Returns false on out of memory. */
bool hooks_add_owned(hooks_t *hooks, symbol_t *fresh, uint8_t owner, void *replacement,
                     void **original);
bool hooks_has(const hooks_t *hooks, const symbol_t *fresh, uint8_t owner); /* has such a hook */
void hooks_remove_owner(hooks_t *hooks, uint8_t owner);                     /* all of them */

/* hook/pending.c */
void pending_scan(hooks_t *hooks); /* hooks pending functions that an image defines now */

/* hook/filter.c */
bool filter_is_active(void);
void filter_scan(hooks_t *hooks); /* examines new images */
void filter_image_gone(
    hooks_t *hooks,
    uint64_t start); /* removes the hooks of functions in the unloaded image at START */

/* hook/hook.c: calls RUN under the lock with the loader held. Returns SONDE_EUNSUPPORTED without a
 * loader, SONDE_EBUSY if the calling thread has the lock. */
int hooks_run_locked(void (*run)(void *context), void *context);
void hooks_acquire(hooks_t *hooks); /* counts one more user of the hooks */
void hooks_release(hooks_t *hooks); /* counts one less, and updates the slots */

/* hook/hook.c. Returns false after PATIENCE_NS (0: no limit), or if the calling thread has the
 * lock. */
bool hooks_lock(uint64_t patience_ns);
bool hooks_try_lock(void);
void hooks_unlock(void);
hooks_t *hooks_state(void);
void hooks_refresh(hooks_t *hooks); /* scans new images and hooks them */

#endif
