/* SPDX-License-Identifier: MIT
 *
 * dlsym and dlvsym (which Apple's systems have not, so it is not found there) answer with the hook.
 *
 * They are hooked like any other function while there are hooks, by an entry that makes no frame
 * when it has nothing to say: for a name that is not hooked, and for RTLD_NEXT and Apple's
 * RTLD_SELF. There the loader has to see the true caller; and who asks for the next definition is a
 * wrapper of the function itself, to which the hook goes on: with the hook as an answer the two
 * would call each other.
 *
 * The loader is asked without our lock, then the table with it; a thread that cannot have the lock
 * for a tenth of a second (it is inside dl_iterate_phdr, and another one waits for that with our
 * lock) gets the function itself.
 */
#include "arch/arch.h"
#include "base/bits.h"
#include "hook/hook.h"
#include "hook/internal.h"

#define NEXT_HANDLE                                                                                \
  ((void *)-1L)                   /* RTLD_NEXT of dlfcn.h, the same in glibc, musl and libSystem   \
                                   */
#define SELF_HANDLE ((void *)-3L) /* RTLD_SELF of libSystem; no handle elsewhere */
#define PATIENCE_NS 100000000u

HIDDEN void *hook_dlsym_next, *hook_dlvsym_next;
HIDDEN void *hook_dlsym(void *handle, const char *name);
HIDDEN void *hook_dlvsym(void *handle, const char *name, const char *version);

static const char *path_of(const hooks_t *h, uint64_t pc) {
  for (uint32_t i = 0; i < h->image_count; i++)
    if (pc >= h->images[i].image.start && pc < h->images[i].image.end)
      return hooks_path(&h->images[i].image);
  return "";
}

/* What stands for FUNCTION, found by NAME, in the eyes of the caller at PC. */
static void *hooked(void *function, const char *name, uint64_t pc) {
  const hooks_t *h = hooks_state();
  void *answer = NULL;
  if (!function || !hooks_lock(PATIENCE_NS)) return NULL;
  for (const symbol_t *s = hooks_bucket(h, hooks_hash(name)); s && !answer; s = s->same_hash) {
    if (s->original != (uint64_t)(uintptr_t)function || !import_slots_text_equal(s->name, name))
      continue;
    const sonde_hook_t *first = hooks_first_for(s, path_of(h, pc));
    if (first) answer = first->request.replacement;
  }
  hooks_unlock();
  return answer;
}

static bool concerns_us(const void *handle, const char *name) {
  return name && handle != NEXT_HANDLE && handle != SELF_HANDLE &&
         slot_names_may_hold(&hooks_state()->names, name);
}

/* Of the three arguments that the entry passes on, dlsym has two. */
__attribute__((used)) HIDDEN void *hook_dlsym_answer(void *handle, const char *name,
                                                     const char *unused, uint64_t pc) {
  (void)unused;
  if (dlopen_is_owed()) (void)hook_refresh_local();
  if (!concerns_us(handle, name)) return NULL;
  void *(*next)(void *, const char *) =
      (void *(*)(void *, const char *))(uintptr_t)load_acquire(&hook_dlsym_next);
  return hooked(next(handle, name), name, pc);
}
ENTRY_BEFORE(hook_dlsym, hook_dlsym_answer, hook_dlsym_next);

__attribute__((used)) HIDDEN void *hook_dlvsym_answer(void *handle, const char *name,
                                                      const char *version, uint64_t pc) {
  if (!concerns_us(handle, name)) return NULL;
  void *(*next)(void *, const char *, const char *) =
      (void *(*)(void *, const char *, const char *))(uintptr_t)load_acquire(&hook_dlvsym_next);
  return hooked(next(handle, name, version), name, pc);
}
ENTRY_BEFORE(hook_dlvsym, hook_dlvsym_answer, hook_dlvsym_next);

const sonde_hook_request_t dlsym_requests[DLSYM_HOOKS] = {
    {.symbol = "dlsym", .replacement = hook_dlsym, .original = &hook_dlsym_next},
    {.symbol = "dlvsym", .replacement = hook_dlvsym, .original = &hook_dlvsym_next},
};
