/* SPDX-License-Identifier: MIT
 *
 * Hooks of functions that no image defines yet. An image is examined when the loader announces it,
 * which may be before it is relocated: its symbols can be read by then, and its importers' slots
 * are found and written like those of any hook. If the image is unloaded, the function is pending
 * again. Used under the lock of hook.c.
 */

#include "base/bits.h"
#include "hook/filter.h"
#include "hook/internal.h"

static const hook_pending_t *pending;
static uint32_t scanned; /* next_number when all images had been examined */

/* The image that defines NAME as an ordinary function; NULL: none. */
static const known_image_t *definer_of(const hooks_t *h, const char *name) {
  for (uint32_t i = 0; i < h->image_count; i++) {
    const known_image_t *known = &h->images[i];
    uint32_t number;
    elf_sym_t sym;
    if (known->image.link_space != 0 || !known->has_slots) continue;
    if (import_slots_definition(&known->slots, name, NULL, &number, &sym))
      return sym.type == ELF_STT_FUNC ? known : NULL;
  }
  return NULL;
}

static void hook_if_defined(hooks_t *h, uint32_t number) {
  const char *name = pending->names[number];
  const known_image_t *known = definer_of(h, name);
  symbol_t *fresh = known ? hooks_new_symbol(h) : NULL;
  void **original = NULL, *replacement = NULL;
  if (!fresh) {
    h->out_of_memory |= known != NULL;
    return;
  }
  if (hooks_resolve(h, name, NULL, 0, fresh) && !hooks_has(h, fresh, HOOK_OF_PENDING)) {
    hook_candidate_t c = {fresh->name,     fresh->version,  image_path(&known->image),
                          fresh->original, fresh->original, false};
    replacement = pending->replace(&c, number, &original);
  }
  if (!replacement) {
    hooks_free_symbol(h, fresh);
    return;
  }
  slot_names_add(&h->names, name); /* dlsym may be called before slots are searched again */
  h->out_of_memory |= !hooks_add_owned(h, fresh, HOOK_OF_PENDING, replacement, original);
}

void pending_scan(hooks_t *h) {
  if (!pending || scanned == h->next_number) return;
  scanned = h->next_number;
  for (uint32_t i = 0; i < pending->count; i++)
    hook_if_defined(h, i);
}

static void pending_add_locked(void *context) {
  hooks_t *h = hooks_state();
  pending = context;
  scanned = UINT32_MAX;
  hooks_scan_images(h);
  hooks_acquire(h);
  hooks_refresh(h);
}

int hook_pending_add(const hook_pending_t *wanted) {
  if (pending) return SONDE_EBUSY;
  return hooks_run_locked(pending_add_locked, (void *)(uintptr_t)wanted);
}

static void pending_remove_locked(void *context) {
  (void)context;
  hooks_t *h = hooks_state();
  hooks_scan_images(h);
  pending = NULL;
  hooks_remove_owner(h, HOOK_OF_PENDING);
  hooks_release(h);
}

int hook_pending_remove(void) {
  return pending ? hooks_run_locked(pending_remove_locked, NULL) : SONDE_ENOTFOUND;
}
