/* SPDX-License-Identifier: MIT
 *
 * Several hooks of one function: who is called first, where each goes on, and what that makes of
 * the slots.
 *
 * A hook has one address to go on with, whichever image the call came from, so a hook with a filter
 * goes on with the next older one of the same filter, or with those without a filter, which want
 * every call. That is why the ones with a filter come first. Two hooks with different filters that
 * both want an image share nothing: the newer one has the slot, and the older one's report says so.
 */
#include <sys/mman.h>

#include "base/bits.h"
#include "hook/internal.h"

static bool same_filter(const sonde_hook_t *a, const sonde_hook_t *b) {
  return a->request.wants == b->request.wants && a->request.context == b->request.context;
}

static const sonde_hook_t *behind(const sonde_hook_t *hook) {
  for (const sonde_hook_t *next = hook->next; next; next = next->next)
    if (!next->request.wants || same_filter(hook, next)) return next;
  return NULL;
}

bool hooks_comes_by(const sonde_hook_t *first, const sonde_hook_t *hook) {
  while (first && first != hook)
    first = behind(first);
  return first != NULL;
}

/* Tells every hook where to go on: before the slots lead to a new one, and before they leave one
 * that goes, so that at every moment the chain from any slot ends in the function. */
static void tell(const symbol_t *symbol) {
  for (const sonde_hook_t *hook = symbol->first; hook; hook = hook->next) {
    const sonde_hook_t *next = behind(hook);
    store_release(hook->request.original,
                  next ? next->request.replacement : (void *)(uintptr_t)symbol->original);
  }
}

void hooks_link(sonde_hook_t *hook) {
  sonde_hook_t **link = &hook->symbol->first;
  while (!hook->request.wants && *link && (*link)->request.wants)
    link = &(*link)->next;
  hook->next = *link;
  *link = hook;
  tell(hook->symbol);
}

void hooks_unlink(sonde_hook_t *hook) {
  sonde_hook_t **link = &hook->symbol->first;
  while (*link != hook)
    link = &(*link)->next;
  *link = hook->next;
  tell(hook->symbol);
}

const sonde_hook_t *hooks_first_for(const symbol_t *symbol, const char *path) {
  const sonde_hook_t *hook = symbol->first;
  while (hook && hook->request.wants && !hook->request.wants(path, hook->request.context))
    hook = hook->next;
  return hook;
}

/* What is there, when it is not what we wrote, is somebody else's, but for two cases: the loader
 * was binding the slot while we wrote, or another copy of the image was loaded at its address. */
static bool is_ours(const symbol_t *symbol, const place_t *place, uint64_t value) {
  return value == place->new_value || value == place->old_value || value == symbol->original;
}

/* The loader makes the slots of an image read-only when it has filled them. As long as they are
 * writable, another thread is loading the image, and may protect them between a look at the
 * protection and the write, which would then be a crash. */
static bool is_being_loaded(hooks_t *h, const import_slots_t *slots, uint64_t address) {
  return !h->is_hasty && address >= slots->relro_start && address < slots->relro_end &&
         (patch_protection(&h->patcher, address) & PROT_WRITE);
}

static void apply_one(hooks_t *h, const symbol_t *symbol, place_t *place,
                      const known_image_t *known) {
  const sonde_hook_t *hook = hooks_first_for(symbol, hooks_path(&known->image));
  uint64_t now = load_relaxed((const uint64_t *)(uintptr_t)place->address);
  uint64_t value = hook ? (uint64_t)(uintptr_t)hook->request.replacement : place->old_value;
  patched_t done = PATCH_CHANGED;
  /* What was written once can be, and has to be, written back. */
  if (now != value && place->new_value == place->old_value &&
      is_being_loaded(h, &known->slots, place->address)) {
    h->is_unfinished = true;
    return;
  }
  if (now == value)
    done = PATCH_DONE;
  else if (is_ours(symbol, place, now))
    done = patch_word(&h->patcher, place->address, now, value);
  if (done != PATCH_DONE) {
    place->state = done == PATCH_REFUSED ? SONDE_SLOT_PROTECTED : SONDE_SLOT_FOREIGN;
    return;
  }
  if (now != value) h->written++;
  place->new_value = value;
  place->state = hook ? SONDE_SLOT_HOOKED : SONDE_SLOT_UNWANTED;
}

/* In the order in which they were found, image by image, so that a protected mapping is opened and
 * closed once. */
void hooks_apply(hooks_t *h) {
  const known_image_t *known = NULL;
  h->is_unfinished = false;
  for (uint32_t i = 0; i < h->place_count; i++) {
    place_t *place = &h->places[i];
    if (!place->symbol || place->state == SONDE_SLOT_ELSEWHERE) continue;
    if (!known || known->number != place->image) known = hooks_image(h, place->image);
    if (known) apply_one(h, place->symbol, place, known);
  }
  patch_end(&h->patcher);
}
