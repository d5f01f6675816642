/* SPDX-License-Identifier: MIT
 *
 * Several hooks of one function: their order, the original that each one calls, and the values of
 * the slots.
 *
 * A hook has one `original` for all images. So a hook with a filter calls the next older hook with
 * the same filter, or the hooks without a filter, which apply to every call; therefore hooks with a
 * filter come first. Two hooks whose different filters both select an image are not chained: the
 * newer one has the slot, and the report of the older one says so. Used under the lock of hook.c.
 */
#include <sys/mman.h>

#include "base/bits.h"
#include "hook/internal.h"

static bool same_filter(const sonde_hook_t *a, const sonde_hook_t *b) {
  return a->request.wants == b->request.wants && a->request.context == b->request.context;
}

static const sonde_hook_t *next_in_chain(const sonde_hook_t *hook) {
  for (const sonde_hook_t *next = hook->next; next; next = next->next)
    if (!next->request.wants || same_filter(hook, next)) return next;
  return NULL;
}

bool hooks_chain_reaches(const sonde_hook_t *first, const sonde_hook_t *hook) {
  while (first && first != hook)
    first = next_in_chain(first);
  return first != NULL;
}

/* Sets `original` of every hook: before a slot leads to a new hook, and before the slots leave a
 * removed one. So at every instant the chain from any slot ends in the function. */
static void update_originals(const symbol_t *symbol) {
  for (const sonde_hook_t *hook = symbol->first; hook; hook = hook->next) {
    const sonde_hook_t *next = next_in_chain(hook);
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
  update_originals(hook->symbol);
}

void hooks_unlink(sonde_hook_t *hook) {
  sonde_hook_t **link = &hook->symbol->first;
  while (*link != hook)
    link = &(*link)->next;
  *link = hook->next;
  update_originals(hook->symbol);
}

static bool is_for(const sonde_hook_t *hook, const char *path, bool is_taken) {
  if (hook->calls_only && is_taken) return false;
  return !hook->request.wants || hook->request.wants(path, hook->request.context);
}

const sonde_hook_t *hooks_first_for(const symbol_t *symbol, const char *path, bool is_taken) {
  const sonde_hook_t *hook = symbol->first;
  while (hook && !is_for(hook, path, is_taken))
    hook = hook->next;
  return hook;
}

/* A value that sonde did not write is foreign, with two exceptions: the loader bound the slot
 * during the write, or another copy of the image was loaded at its address. */
static bool is_ours(const symbol_t *symbol, const place_t *place, uint64_t value) {
  return value == place->new_value || value == place->old_value || value == symbol->original;
}

/* The loader makes the slots of an image read-only after it has filled them. While they are
 * writable, another thread is loading the image and may protect them between the check of the
 * protection and the write, which would crash. */
static bool is_being_loaded(hooks_t *h, const import_slots_t *slots, uint64_t address) {
  return !h->force_writes && address >= slots->relro_start && address < slots->relro_end &&
         (patch_protection(&h->patcher, address) & PROT_WRITE);
}

static void apply_one(hooks_t *h, const symbol_t *symbol, place_t *place,
                      const known_image_t *known) {
  const sonde_hook_t *hook = hooks_first_for(symbol, image_path(&known->image), place->is_taken);
  uint64_t now = load_relaxed((const uint64_t *)(uintptr_t)place->address);
  uint64_t value = hook ? (uint64_t)(uintptr_t)hook->request.replacement : place->old_value;
  patched_t done = PATCH_CHANGED;
  /* A slot that was written once can be, and must be, written back. */
  if (now != value && place->new_value == place->old_value &&
      is_being_loaded(h, &known->slots, place->address)) {
    h->has_deferred = true;
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

/* In the order in which the slots were found, image by image, so that a protected mapping is opened
 * and closed once. */
void hooks_apply(hooks_t *h) {
  const known_image_t *known = NULL;
  h->has_deferred = false;
  for (uint32_t i = 0; i < h->place_count; i++) {
    place_t *place = &h->places[i];
    if (!place->symbol || place->state == SONDE_SLOT_ELSEWHERE) continue;
    if (!known || known->number != place->image) known = hooks_image(h, place->image);
    if (known) apply_one(h, place->symbol, place, known);
  }
  patch_end(&h->patcher);
}
