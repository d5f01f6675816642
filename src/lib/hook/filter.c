/* SPDX-License-Identifier: MIT
 *
 * The imports of an image are walked once, when it is new. Names that were looked at in the same
 * pass are known by a hash of 64 bits: of the hundred thousand imports of a large process, a few
 * thousand are different. (Should two of them ever share it, one is not hooked.)
 *
 * A function whose image is unloaded loses its hook; loaded again, it is found again.
 */
#include "hook/filter.h"

#include "base/bits.h"
#include "hook/hook.h"
#include "hook/internal.h"

#define SEEN_SLOTS 65536u /* a power of two; beyond three quarters names are not remembered */

static const hook_filter_t *families[HOOK_FAMILIES];
static uint32_t family_count;

typedef struct pass {
  hooks_t *hooks;
  const hook_filter_t *family;
  uint8_t whose; /* HOOK_… */
  uint64_t *seen;
  uint32_t seen_count;
  bool is_short;
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
  uint64_t here = (uint64_t)(uintptr_t)&families;
  return here >= image->start && here < image->end;
}

/* The image that is named as the library of SYMBOL: not the agent, which has functions of the C
 * library's names in front of them. */
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

/* The address of SYMBOL in LIBRARY: another one than its own where the agent stands in front. */
static uint64_t address_in(const known_image_t *library, const symbol_t *symbol) {
  const char *const names[] = {symbol->name};
  uint64_t address = 0;
  if (library->slots.start == symbol->definer) return symbol->original;
  os_symbols((uint64_t)(uintptr_t)&families, names, &address, 1);
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

bool hooks_has(const hooks_t *h, const symbol_t *symbol, uint8_t whose) {
  for (const symbol_t *s = hooks_bucket(h, symbol->hash); s; s = s->same_hash)
    if (s->whose & 1u << whose && s->original == symbol->original &&
        import_slots_text_equal(s->name, symbol->name))
      return true;
  return false;
}

/* The symbol that is in the list already, or FRESH, added to it. */
static symbol_t *settle(hooks_t *h, symbol_t *fresh) {
  for (symbol_t *s = hooks_bucket(h, fresh->hash); s; s = s->same_hash)
    if (s->original == fresh->original && import_slots_text_equal(s->name, fresh->name)) {
      hooks_free_symbol(h, fresh);
      return s;
    }
  hooks_add_symbol(h, fresh);
  return fresh;
}

bool hooks_adopt(hooks_t *h, symbol_t *fresh, uint8_t whose, void *replacement, void **original) {
  sonde_hook_t *hook = hooks_new_hook(h);
  if (!hook) {
    hooks_free_symbol(h, fresh);
    return false;
  }
  symbol_t *symbol = settle(h, fresh);
  *hook = (sonde_hook_t){
      .symbol = symbol,
      .whose = whose,
      .request = {.symbol = symbol->name, .replacement = replacement, .original = original}};
  symbol->whose |= (uint8_t)(1u << whose);
  hooks_link(hook);
  return true;
}

/* Hooks what FRESH stands for, when the family wants it. */
static void offer(pass_t *p, symbol_t *fresh) {
  hooks_t *h = p->hooks;
  const hook_filter_t *family = p->family;
  elf_sym_t sym;
  uint32_t number;
  const known_image_t *library = library_of(h, fresh, &sym, &number);
  void **original = NULL, *replacement = NULL;
  if (library && !hooks_has(h, fresh, p->whose) &&
      (sym.type == ELF_STT_FUNC || sym.type == ELF_STT_GNU_IFUNC)) {
    hook_candidate_t c = {fresh->name,
                          fresh->version,
                          hooks_path(&library->image),
                          fresh->original,
                          address_in(library, fresh),
                          has_other_registers(library, number)};
    replacement = family->replace(&c, &original, family->context);
  }
  if (replacement)
    p->is_short |= !hooks_adopt(h, fresh, p->whose, replacement, original);
  else
    hooks_free_symbol(h, fresh);
}

static bool look_at_import(const slot_t *slot, void *context) {
  pass_t *p = context;
  if (!p->family->may_want(slot->name, p->family->context)) return true;
  if (was_seen(p, hash_of(slot->name))) return true;
  symbol_t *fresh = hooks_new_symbol(p->hooks);
  if (!fresh) {
    p->is_short = true;
    return false;
  }
  if (hooks_define(p->hooks, slot->name, NULL, fresh))
    offer(p, fresh);
  else
    hooks_free_symbol(p->hooks, fresh);
  return true;
}

/* ---- passes --------------------------------------------------------------------------------- */

bool filter_is_followed(void) { return family_count > 0; }

static void offer_images(hooks_t *h, uint32_t number) {
  const hook_filter_t *family = families[number];
  pass_t p = {.hooks = h, .family = family, .whose = (uint8_t)(HOOK_OF_FAMILY + number)};
  bool came = false;
  for (uint32_t i = 0; i < h->image_count; i++) {
    known_image_t *known = &h->images[i];
    if (known->was_offered & 1u << number) continue;
    known->was_offered |= (uint8_t)(1u << number);
    came = true;
    if (!family->may_want || !known->has_slots || known->image.link_space != 0) continue;
    if (!p.seen) p.seen = os_map(SEEN_SLOTS * sizeof *p.seen);
    if (!p.seen) {
      p.is_short = true;
      break;
    }
    import_slots_each(&known->slots, NULL, look_at_import, &p);
  }
  if (p.seen) os_unmap(p.seen, SEEN_SLOTS * sizeof *p.seen);
  h->is_short |= p.is_short;
  if (came && family->came) family->came(family->context);
}

void filter_look(hooks_t *h) {
  for (uint32_t i = 0; i < family_count; i++)
    offer_images(h, i);
}

/* Takes the hooks of WHOSE, or of all that go with an image (0), off SYMBOL. */
static void release(hooks_t *h, symbol_t *symbol, uint8_t whose) {
  for (sonde_hook_t *hook = symbol->first, *next; hook; hook = next) {
    next = hook->next;
    if (whose ? hook->whose != whose : hook->whose == HOOK_ASKED) continue;
    hooks_unlink(hook);
    hooks_free_hook(h, hook);
  }
  symbol->whose = whose ? (uint8_t)(symbol->whose & ~(1u << whose)) : 0;
}

void hooks_release(hooks_t *h, uint8_t whose) {
  for (symbol_t *symbol = h->symbols; symbol; symbol = symbol->next)
    if (symbol->whose & 1u << whose) release(h, symbol, whose);
}

void filter_forget(hooks_t *h, uint64_t start) {
  for (symbol_t *symbol = h->symbols, *next; symbol; symbol = next) {
    next = symbol->next;
    if (!symbol->whose || symbol->definer != start) continue;
    release(h, symbol, 0);
    if (!symbol->first) hooks_free_symbol(h, symbol);
  }
}

/* Enters WANTED, whose number is returned; HOOK_FAMILIES when it cannot be. */
static uint32_t enter(const hook_filter_t *wanted) {
  for (uint32_t i = 0; i < family_count; i++)
    if (families[i] == wanted) return HOOK_FAMILIES;
  if (family_count == HOOK_FAMILIES) return HOOK_FAMILIES;
  families[family_count] = wanted;
  return family_count++;
}

#define PATIENCE_NS 20000000u

/* No image is looked at here, which takes the loader's lock: the next one that comes is told of
 * under it. */
bool hook_filter_watch(const hook_filter_t *wanted) {
  if (!hooks_lock(PATIENCE_NS)) return false;
  uint32_t number = enter(wanted);
  if (number < HOOK_FAMILIES) dlopen_start(hooks_state());
  hooks_unlock();
  return number < HOOK_FAMILIES;
}

typedef struct following {
  const hook_filter_t *family;
  int result;
} following_t;

static void follow_held(void *context) {
  following_t *f = context;
  hooks_t *h = hooks_state();
  uint32_t number = enter(f->family);
  f->result = SONDE_EBUSY;
  if (number == HOOK_FAMILIES) return;
  h->is_short = false;
  hooks_scan_images(h);
  hooks_start(h);
  hooks_refresh(h);
  f->result = h->is_short ? SONDE_ENOMEM : 0;
  for (const symbol_t *symbol = h->symbols; symbol && f->result >= 0; symbol = symbol->next)
    f->result += symbol->whose >> (HOOK_OF_FAMILY + number) & 1;
}

int hook_filter_add_local(const hook_filter_t *wanted) {
  following_t f = {wanted, 0};
  int status = hooks_held(follow_held, &f);
  return status == SONDE_OK ? f.result : status;
}
