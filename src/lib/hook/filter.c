/* SPDX-License-Identifier: MIT
 *
 * Filters. The imports of an image are visited once, when it is new. Names that were examined in
 * the same pass are remembered by a 64-bit hash: of a hundred thousand imports of a large process,
 * a few thousand names are distinct. (If two ever have the same hash, one is not hooked.)
 *
 * A function loses its hook when its image is unloaded, and is hooked again when it is reloaded.
 * Used under the lock of hook.c.
 */
#include "hook/filter.h"

#include "base/bits.h"
#include "hook/hook.h"
#include "hook/internal.h"

/* A power of two; at most three quarters are used. */
#define SEEN_SLOTS 65536u

static const hook_filter_t *filters[HOOK_FILTERS]; /* NULL: this place is free */
static uint32_t filter_count;

typedef struct pass {
  hooks_t *hooks;
  const hook_filter_t *filter;
  uint8_t owner; /* HOOK_… */
  uint64_t *seen;
  uint32_t seen_count;
  bool out_of_memory;
} pass_t;

static uint64_t hash_of(const char *name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; name++)
    hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
  hash ^= hash >> 32;
  return hash ? hash : 1;
}

static bool was_seen(pass_t *p, uint64_t hash) {
  uint64_t at = hash % SEEN_SLOTS;
  while (p->seen[at] && p->seen[at] != hash)
    at = (at + 1) % SEEN_SLOTS;
  if (p->seen[at]) return true;
  if (p->seen_count < SEEN_SLOTS / 4 * 3) {
    p->seen[at] = hash;
    p->seen_count++;
  }
  return false;
}

/* ---- one function --------------------------------------------------------------------------- */

static bool is_ours(const os_image_t *image) {
  uint64_t here = (uint64_t)(uintptr_t)&filters;
  return here >= image->start && here < image->end;
}

/* The library that defines SYMBOL; never the agent, which interposes functions of the C library. */
static const known_image_t *library_of(const hooks_t *h, const symbol_t *symbol, elf_sym_t *sym,
                                       uint32_t *number) {
  const char *version = symbol->version[0] ? symbol->version : NULL;
  for (uint32_t i = 0; i < h->image_count; i++) {
    const known_image_t *known = &h->images[i];
    if (known->image.link_space != 0 || !known->has_slots) continue;
    if (i > 0 && is_ours(&known->image)) continue;
    if (import_slots_definition(&known->slots, symbol->name, version, number, sym)) return known;
  }
  return NULL;
}

/* The address of SYMBOL in LIBRARY, also if the agent interposes it. */
static uint64_t address_in(const known_image_t *library, const symbol_t *symbol) {
  const char *const names[] = {symbol->name};
  uint64_t address = 0;
  if (library->slots.start == symbol->definer) return symbol->original;
  os_symbols((uint64_t)(uintptr_t)&filters, names, &address, 1);
  return address ? address : symbol->original;
}

static bool has_other_registers(const known_image_t *known, uint32_t number) {
#if defined(__aarch64__) && !defined(__APPLE__)
  return known->slots.symbols.data[(uint64_t)number * ELF_SYM_MAX + 5] & 0x80; /* aaelf64 */
#else
  (void)known, (void)number;
  return false;
#endif
}

bool hooks_has(const hooks_t *h, const symbol_t *symbol, uint8_t owner) {
  for (const symbol_t *s = hooks_bucket(h, symbol->hash); s; s = s->same_hash)
    if (s->owner & 1u << owner && s->original == symbol->original &&
        import_slots_text_equal(s->name, symbol->name))
      return true;
  return false;
}

bool hooks_add_owned(hooks_t *h, symbol_t *fresh, uint8_t owner, void *replacement,
                     void **original) {
  sonde_hook_t *hook = hooks_new_hook(h);
  if (!hook) {
    hooks_free_symbol(h, fresh);
    return false;
  }
  symbol_t *symbol = hooks_intern(h, fresh);
  *hook = (sonde_hook_t){
      .symbol = symbol,
      .owner = owner,
      .calls_only = owner < HOOK_OF_PENDING && filters[owner - HOOK_OF_FILTER]->calls_only,
      .request = {.symbol = symbol->name, .replacement = replacement, .original = original}};
  symbol->owner |= (uint8_t)(1u << owner);
  hooks_link(hook);
  return true;
}

/* Hooks the function FRESH if the filter selects it. */
static void offer(pass_t *p, symbol_t *fresh) {
  hooks_t *h = p->hooks;
  const hook_filter_t *filter = p->filter;
  elf_sym_t sym;
  uint32_t number;
  const known_image_t *library = library_of(h, fresh, &sym, &number);
  void **original = NULL, *replacement = NULL;
  if (library && !hooks_has(h, fresh, p->owner) &&
      (sym.type == ELF_STT_FUNC || sym.type == ELF_STT_GNU_IFUNC)) {
    hook_candidate_t c = {fresh->name,
                          fresh->version,
                          image_path(&library->image),
                          fresh->original,
                          address_in(library, fresh),
                          has_other_registers(library, number)};
    replacement = filter->replace(&c, &original, filter->context);
  }
  if (replacement)
    p->out_of_memory |= !hooks_add_owned(h, fresh, p->owner, replacement, original);
  else
    hooks_free_symbol(h, fresh);
}

static bool visit_import(const slot_t *slot, void *context) {
  pass_t *p = context;
  if (!p->filter->may_match(slot->name, p->filter->context)) return true;
  if (was_seen(p, hash_of(slot->name))) return true;
  symbol_t *fresh = hooks_new_symbol(p->hooks);
  if (!fresh) {
    p->out_of_memory = true;
    return false;
  }
  if (hooks_resolve(p->hooks, slot->name, NULL, 0, fresh))
    offer(p, fresh);
  else
    hooks_free_symbol(p->hooks, fresh);
  return true;
}

/* ---- passes --------------------------------------------------------------------------------- */

bool filter_is_active(void) { return filter_count > 0; }

bool filter_has_calls_only(void) {
  for (uint32_t i = 0; i < HOOK_FILTERS; i++)
    if (filters[i] && filters[i]->calls_only) return true;
  return false;
}

static void offer_images(hooks_t *h, uint32_t number) {
  const hook_filter_t *filter = filters[number];
  pass_t p = {.hooks = h, .filter = filter, .owner = (uint8_t)(HOOK_OF_FILTER + number)};
  bool on_images = false;
  for (uint32_t i = 0; i < h->image_count; i++) {
    known_image_t *known = &h->images[i];
    if (known->filters_done & 1u << number) continue;
    known->filters_done |= (uint8_t)(1u << number);
    on_images = true;
    if (!filter->may_match || !known->has_slots || known->image.link_space != 0) continue;
    if (!p.seen) p.seen = os_map(SEEN_SLOTS * sizeof *p.seen);
    if (!p.seen) {
      p.out_of_memory = true;
      break;
    }
    import_slots_each(&known->slots, NULL, visit_import, &p);
  }
  if (p.seen) os_unmap(p.seen, SEEN_SLOTS * sizeof *p.seen);
  h->out_of_memory |= p.out_of_memory;
  if (on_images && filter->on_images) filter->on_images(filter->context);
}

void filter_scan(hooks_t *h) {
  for (uint32_t i = 0; i < HOOK_FILTERS; i++)
    if (filters[i]) offer_images(h, i);
}

/* Removes the hooks of OWNER from SYMBOL; 0: all that end with the image. */
static void release(hooks_t *h, symbol_t *symbol, uint8_t owner) {
  for (sonde_hook_t *hook = symbol->first, *next; hook; hook = next) {
    next = hook->next;
    if (owner ? hook->owner != owner : hook->owner == HOOK_REQUESTED) continue;
    hooks_unlink(hook);
    hooks_free_hook(h, hook);
  }
  symbol->owner = owner ? (uint8_t)(symbol->owner & ~(1u << owner)) : 0;
}

void hooks_remove_owner(hooks_t *h, uint8_t owner) {
  for (symbol_t *symbol = h->symbols; symbol; symbol = symbol->next)
    if (symbol->owner & 1u << owner) release(h, symbol, owner);
}

void filter_image_gone(hooks_t *h, uint64_t start) {
  for (symbol_t *symbol = h->symbols, *next; symbol; symbol = next) {
    next = symbol->next;
    if (!symbol->owner || symbol->definer != start) continue;
    release(h, symbol, 0);
    if (!symbol->first) hooks_free_symbol(h, symbol);
  }
}

/* Adds the filter WANTED and returns its index; HOOK_FILTERS on failure. */
static uint32_t register_filter(const hook_filter_t *wanted) {
  uint32_t place = HOOK_FILTERS;
  for (uint32_t i = HOOK_FILTERS; i-- > 0;) {
    if (filters[i] == wanted) return HOOK_FILTERS;
    if (!filters[i]) place = i;
  }
  if (place == HOOK_FILTERS) return HOOK_FILTERS;
  filters[place] = wanted;
  filter_count++;
  return place;
}

#define PATIENCE_NS 20000000u

/* Images are not examined here, which would take the loader's lock: the next new image triggers
 * that. */
bool hook_filter_watch(const hook_filter_t *wanted) {
  if (!hooks_lock(PATIENCE_NS)) return false;
  uint32_t number = register_filter(wanted);
  if (number < HOOK_FILTERS) dlopen_start(hooks_state());
  hooks_unlock();
  return number < HOOK_FILTERS;
}

typedef struct adding_filter {
  const hook_filter_t *filter;
  int result;
} adding_filter_t;

static void filter_add_locked(void *context) {
  adding_filter_t *f = context;
  hooks_t *h = hooks_state();
  uint32_t number = register_filter(f->filter);
  f->result = SONDE_EBUSY;
  if (number == HOOK_FILTERS) return;
  h->out_of_memory = false;
  hooks_scan_images(h);
  hooks_acquire(h);
  hooks_refresh(h);
  f->result = h->out_of_memory ? SONDE_ENOMEM : 0;
  for (const symbol_t *symbol = h->symbols; symbol && f->result >= 0; symbol = symbol->next)
    f->result += symbol->owner >> (HOOK_OF_FILTER + number) & 1;
}

int hook_filter_add_local(const hook_filter_t *wanted) {
  adding_filter_t f = {wanted, 0};
  int status = hooks_run_locked(filter_add_locked, &f);
  return status == SONDE_OK ? f.result : status;
}

static void filter_remove_locked(void *context) {
  adding_filter_t *f = context;
  hooks_t *h = hooks_state();
  uint32_t number = 0;
  while (number < HOOK_FILTERS && filters[number] != f->filter)
    number++;
  f->result = SONDE_ENOTFOUND;
  if (number == HOOK_FILTERS) return;
  hooks_scan_images(h);
  hooks_remove_owner(h, (uint8_t)(HOOK_OF_FILTER + number));
  for (uint32_t i = 0; i < h->image_count; i++) /* another filter may get its place */
    h->images[i].filters_done &= (uint8_t) ~(1u << number);
  filters[number] = NULL;
  filter_count--;
  f->result = SONDE_OK;
  hooks_release(h);
}

int hook_filter_remove_local(const hook_filter_t *filter) {
  adding_filter_t f = {filter, 0};
  int status = hooks_run_locked(filter_remove_locked, &f);
  return status == SONDE_OK ? f.result : status;
}

bool hook_filter_unwatch(const hook_filter_t *filter) {
  if (!hooks_lock(0)) return false;
  uint32_t number = 0;
  while (number < HOOK_FILTERS && filters[number] != filter)
    number++;
  bool found = number < HOOK_FILTERS;
  if (found) {
    filters[number] = NULL;
    filter_count--;
    if (!hooks_state()->installed && !filter_count) dlopen_stop(hooks_state());
  }
  hooks_unlock();
  return found;
}
