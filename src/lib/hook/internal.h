/* SPDX-License-Identifier: MIT
 *
 * What is hooked, and where its slots are: the state behind sonde/hook.h, and its parts.
 *
 * Everything here is used under the one lock of hook.c, and what looks into images runs while the
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

#define HOOK_FAMILIES 3u

/* Who wanted a hook. All but the first go with the image that defines their function. */
enum { HOOK_ASKED, HOOK_OF_FAMILY, HOOK_AWAITED = HOOK_OF_FAMILY + HOOK_FAMILIES };

struct sonde_hook {
  symbol_t *symbol;             /* NULL: this hook is free */
  sonde_hook_t *next;           /* the next one to be called; of free ones, the next free one */
  sonde_hook_request_t request; /* its strings are not ours: the symbol has copies */
  uint8_t whose;                /* HOOK_… */
};

/* A function that is hooked: one definition. */
struct symbol {
  symbol_t *next;      /* of all, or of the free ones */
  symbol_t *same_hash; /* of those in its bucket */
  sonde_hook_t *first; /* those with a filter, then those without; the newest first */
  uint64_t original;   /* where it is: of an IFUNC, what its resolver answered */
  uint64_t canonical;  /* what the program, linked at a fixed address, takes for its address: a stub
                          of its own; 0: none */
  uint64_t definer;    /* start of the image that defines it */
  uint32_t slots;      /* the first of its slots, or HOOK_NONE */
  uint32_t hash;       /* of its name */
  bool is_new;         /* images have not been searched for it */
  uint8_t whose;       /* bits 1 << HOOK_…: it has such a hook */
  uint32_t text_bytes; /* of the memory of its texts, which it keeps when it is free */
  char *name;
  char *version; /* "": it has none */
};

#define HOOK_BUCKETS 4096u

/* A loaded image that was searched for all symbols that are not new. */
typedef struct known_image {
  os_image_t image;
  import_slots_t slots;
  uint32_t path_hash;
  bool has_slots;  /* its dynamic section can be used */
  uint32_t number; /* never given twice */
  bool is_present, is_searched;
  bool is_partial;     /* it was searched before it was relocated; some of its slots may be noted */
  uint8_t was_offered; /* its imports, to the families of these bits */
} known_image_t;

/* A slot of a symbol. */
typedef struct place {
  symbol_t *symbol; /* NULL: free */
  uint64_t address, old_value, new_value;
  uint32_t image; /* the number of its image */
  uint32_t next;  /* of the same symbol, or of the free ones */
  uint8_t kind, state;
} place_t;

typedef struct hooks {
  symbol_t *symbols, *free_symbols;
  symbol_t *buckets[HOOK_BUCKETS];
  sonde_hook_t *free_hooks;
  known_image_t *images;
  uint32_t image_count, image_capacity, next_number;
  uint64_t epoch; /* of the loader, when its images were looked at; 0: not known */
  place_t *places;
  uint32_t place_count, place_capacity, free_place;
  patcher_t patcher;
  slot_names_t names;             /* of all symbols; others may read it without the lock */
  sonde_hook_t *own[DLSYM_HOOKS]; /* of dlsym.c; NULL: not set */
  uint32_t others;                /* hooks that are not our own */
  uint32_t written;               /* slots, since it was set to 0 */
  bool is_short;                  /* of memory: something was left out */
  bool is_hasty;                  /* slots of an image that is being loaded are written as well */
  bool is_unfinished;             /* such slots were left out */
} hooks_t;

/* hook/arena.c */
symbol_t *hooks_new_symbol(hooks_t *hooks);
bool hooks_name_symbol(symbol_t *symbol, const char *name, const char *version);
void hooks_add_symbol(hooks_t *hooks, symbol_t *symbol); /* to the list and its bucket */
sonde_hook_t *hooks_new_hook(hooks_t *hooks);
bool hooks_is_hook(const sonde_hook_t *hook);
place_t *hooks_new_place(hooks_t *hooks, symbol_t *symbol);
bool hooks_add_image(hooks_t *hooks, const os_image_t *image);
void hooks_free_hook(hooks_t *hooks, sonde_hook_t *hook);
void hooks_free_symbol(hooks_t *hooks, symbol_t *symbol); /* with its places */

/* hook/scan.c: the images that came and went, and the slots of new symbols. */
void hooks_scan_images(hooks_t *hooks);
void hooks_scan_slots(hooks_t *hooks);
void hooks_search_again(hooks_t *hooks, known_image_t *known); /* at the next scan */
const known_image_t *hooks_image(const hooks_t *hooks, uint32_t number);
const char *hooks_path(const os_image_t *image);

/* The symbols of that name are among those from here on, by `same_hash`. */
uint32_t hooks_hash(const char *name);
static inline symbol_t *hooks_bucket(const hooks_t *hooks, uint32_t hash) {
  return hooks->buckets[hash % HOOK_BUCKETS];
}

/* hook/linux/resolve.c: finds the definition of NAME and fills in SYMBOL but for its chain. False
 * when no image of the program's own namespace has one. */
bool hooks_define(const hooks_t *hooks, const char *name, const char *version, symbol_t *symbol);

/* hook/chain.c */
void hooks_link(sonde_hook_t *hook);
void hooks_unlink(sonde_hook_t *hook);
void hooks_apply(hooks_t *hooks); /* brings every slot to what the chains say */
const sonde_hook_t *hooks_first_for(const symbol_t *symbol, const char *path);
bool hooks_comes_by(const sonde_hook_t *first, const sonde_hook_t *hook);

/* hook/linux/dlopen.c: images that are loaded later, hooked before their constructors run. */
void dlopen_start(hooks_t *hooks);
void dlopen_stop(hooks_t *hooks); /* puts the loader's code back */
bool dlopen_in_force(void);
bool dlopen_was_missed(void); /* the loader told of a change while the lock was taken; asked once */
void dlopen_catch_up(hooks_t *hooks);
bool dlopen_is_owed(void); /* an image could not be hooked as it came; asked once */

/* hook/linux/loader_jump.c: makes the loader's function jump TO. Nothing happens when it cannot. */
void loader_jump_start(hooks_t *hooks, void (*to)(void));
void loader_jump_stop(hooks_t *hooks);
bool loader_jump_in_force(void);

/* hook/dlsym.c: what dlsym answers. The hooks it needs itself, set while there are others. */
extern const sonde_hook_request_t dlsym_requests[DLSYM_HOOKS];

/* hook/filter.c: FRESH, which is defined, gets a hook for HOOK_… WHOSE, and may be given up for a
 * symbol that is there already. False without memory. */
bool hooks_adopt(hooks_t *hooks, symbol_t *fresh, uint8_t whose, void *replacement,
                 void **original);
bool hooks_has(const hooks_t *hooks, const symbol_t *fresh, uint8_t whose); /* one already */
void hooks_release(hooks_t *hooks, uint8_t whose);                          /* all of them */

/* hook/pending.c */
void pending_look(hooks_t *hooks); /* whether an image has come that defines what is awaited */

/* hook/filter.c */
bool filter_is_followed(void);
void filter_look(hooks_t *hooks);                   /* at images that are new */
void filter_forget(hooks_t *hooks, uint64_t start); /* what the image at START defined */

/* hook/hook.c: runs RUN under the lock with the loader held. SONDE_EUNSUPPORTED where there is no
 * loader, SONDE_EBUSY when we are inside already. */
int hooks_held(void (*run)(void *context), void *context);
void hooks_start(hooks_t *hooks); /* one more reason to be in force */
void hooks_stop(hooks_t *hooks);  /* one less: brings the slots to what the chains say */

/* hook/hook.c. A thread that waited for PATIENCE_NS (0: without limit) gives up. */
bool hooks_lock(uint64_t patience_ns);
bool hooks_try_lock(void);
void hooks_unlock(void);
hooks_t *hooks_state(void);
void hooks_refresh(hooks_t *hooks); /* what has to be done for images that came, and went */

#endif
