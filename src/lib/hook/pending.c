/* SPDX-License-Identifier: MIT
 *
 * Functions that no image has at first. An image is looked at when the loader tells of it, which
 * may be before it is relocated: its symbols can be read by then, and its importers' slots are
 * found and written as those of any hook. A function whose image goes is awaited again.
 */

#include "base/bits.h"
#include "hook/filter.h"
#include "hook/internal.h"

static const hook_pending_t *awaited;
static uint32_t looked; /* the number of the next image when all were looked at */

/* The image that defines NAME as an ordinary function; NULL when there is none. */
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

static void look_for(hooks_t *h, uint32_t number) {
  const char *name = awaited->names[number];
  const known_image_t *known = definer_of(h, name);
  symbol_t *fresh = known ? hooks_new_symbol(h) : NULL;
  void **original = NULL, *replacement = NULL;
  if (!fresh) {
    h->is_short |= known != NULL;
    return;
  }
  if (hooks_define(h, name, NULL, fresh) && !hooks_has(h, fresh, HOOK_AWAITED)) {
    hook_candidate_t c = {fresh->name,     fresh->version,  hooks_path(&known->image),
                          fresh->original, fresh->original, false};
    replacement = awaited->replace(&c, number, &original);
  }
  if (!replacement) {
    hooks_free_symbol(h, fresh);
    return;
  }
  slot_names_add(&h->names, name); /* dlsym may be asked before slots are searched again */
  h->is_short |= !hooks_adopt(h, fresh, HOOK_AWAITED, replacement, original);
}

void pending_look(hooks_t *h) {
  if (!awaited || looked == h->next_number) return;
  looked = h->next_number;
  for (uint32_t i = 0; i < awaited->count; i++)
    look_for(h, i);
}

static void await_held(void *context) {
  hooks_t *h = hooks_state();
  awaited = context;
  looked = UINT32_MAX;
  hooks_scan_images(h);
  hooks_start(h);
  hooks_refresh(h);
}

int hook_pending_add(const hook_pending_t *wanted) {
  if (awaited) return SONDE_EBUSY;
  return hooks_held(await_held, (void *)(uintptr_t)wanted);
}

static void no_more_held(void *context) {
  (void)context;
  hooks_t *h = hooks_state();
  hooks_scan_images(h);
  awaited = NULL;
  hooks_release(h, HOOK_AWAITED);
  hooks_stop(h);
}

int hook_pending_remove(void) { return awaited ? hooks_held(no_more_held, NULL) : SONDE_ENOTFOUND; }
