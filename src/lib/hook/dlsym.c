/* SPDX-License-Identifier: MIT
 *
 * While hooks are installed, dlsym and dlvsym return the replacement of a hooked function. (Apple's
 * systems have no dlvsym.) A hook of calls only gives way where code takes the function's address
 * from a slot: Ruby compares that address with dlsym's, and refuses the library if they differ.
 *
 * Both are hooked like any other function, by an entry that adds no frame if it changes nothing:
 * for names that are not hooked, for RTLD_NEXT, and for Apple's RTLD_SELF. In these cases the
 * loader must see the true caller. With RTLD_NEXT, a wrapper reaches the next definition; if it got
 * the replacement, wrapper and replacement would call each other.
 *
 * The loader is called without sonde's lock, then the table is read with it. A thread that does not
 * get the lock within a tenth of a second gets the function itself: it may be inside
 * dl_iterate_phdr while the lock's owner waits for that.
 */
#include "arch/arch.h"
#include "base/bits.h"
#include "hook/hook.h"
#include "hook/internal.h"

/* RTLD_NEXT of dlfcn.h, the same in glibc, musl and libSystem; RTLD_SELF of libSystem, not a handle
 * elsewhere. */
#define NEXT_HANDLE ((void *)-1L)
#define SELF_HANDLE ((void *)-3L)

#define PATIENCE_NS 100000000u

HIDDEN void *hook_dlsym_next, *hook_dlvsym_next;
HIDDEN void *hook_dlsym(void *handle, const char *name);
HIDDEN void *hook_dlvsym(void *handle, const char *name, const char *version);

static const char *path_of(const hooks_t *h, uint64_t pc) {
  for (uint32_t i = 0; i < h->image_count; i++)
    if (pc >= h->images[i].image.start && pc < h->images[i].image.end)
      return image_path(&h->images[i].image);
  return "";
}

static bool is_taken(const hooks_t *h, const symbol_t *symbol) {
  uint32_t place = symbol->slots;
  while (place != HOOK_NONE && !h->places[place].is_taken)
    place = h->places[place].next;
  return place != HOOK_NONE;
}

/* The replacement of FUNCTION, found by NAME, for the caller at PC; NULL: none. */
static void *replacement_of(void *function, const char *name, uint64_t pc) {
  const hooks_t *h = hooks_state();
  void *replacement = NULL;
  if (!function || !hooks_lock(PATIENCE_NS)) return NULL;
  for (const symbol_t *s = hooks_bucket(h, hooks_hash(name)); s && !replacement; s = s->same_hash) {
    if (s->original != (uint64_t)(uintptr_t)function || !import_slots_text_equal(s->name, name))
      continue;
    const sonde_hook_t *first = hooks_first_for(s, path_of(h, pc), is_taken(h, s));
    if (first) replacement = first->request.replacement;
  }
  hooks_unlock();
  return replacement;
}

static bool may_be_hooked(const void *handle, const char *name) {
  return name && handle != NEXT_HANDLE && handle != SELF_HANDLE &&
         slot_names_may_hold(&hooks_state()->names, name);
}

/* The entry passes three arguments; dlsym has two. */
__attribute__((used)) HIDDEN void *hook_dlsym_lookup(void *handle, const char *name,
                                                     const char *unused, uint64_t pc) {
  (void)unused;
  if (dlopen_take_retry()) (void)hook_refresh_local();
  if (!may_be_hooked(handle, name)) return NULL;
  void *(*next)(void *, const char *) =
      (void *(*)(void *, const char *))(uintptr_t)load_acquire(&hook_dlsym_next);
  return replacement_of(next(handle, name), name, pc);
}
ENTRY_BEFORE(hook_dlsym, hook_dlsym_lookup, hook_dlsym_next);

__attribute__((used)) HIDDEN void *hook_dlvsym_lookup(void *handle, const char *name,
                                                      const char *version, uint64_t pc) {
  if (!may_be_hooked(handle, name)) return NULL;
  void *(*next)(void *, const char *, const char *) =
      (void *(*)(void *, const char *, const char *))(uintptr_t)load_acquire(&hook_dlvsym_next);
  return replacement_of(next(handle, name, version), name, pc);
}
ENTRY_BEFORE(hook_dlvsym, hook_dlvsym_lookup, hook_dlvsym_next);

sonde_hook_request_t dlsym_requests[DLSYM_HOOKS] = {
    {.symbol = "dlsym", .replacement = hook_dlsym, .original = &hook_dlsym_next},
    {.symbol = "dlvsym", .replacement = hook_dlvsym, .original = &hook_dlvsym_next},
};
