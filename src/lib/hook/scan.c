/* SPDX-License-Identifier: MIT
 *
 * Finds slots: in new images for every symbol, in all images for new symbols. Every slot of a
 * hooked name is recorded, also one that will not be written, so that it can be reported. Used
 * under the lock of hook.c.
 *
 * A bound slot contains the address of its definition: the hooked function, or another one. A
 * lazily bound slot still leads into the procedure linkage table of its own image. What the loader
 * would bind it to is derived from the requested version, the namespace, and whether the image has
 * a definition of its own. The image's own definition comes first with -Bsymbolic and with
 * RTLD_DEEPBIND. RTLD_DEEPBIND is not visible outside the loader, so such a slot is left unchanged.
 */
#include "base/bits.h"
#include "hook/internal.h"

const char *image_path(const os_image_t *image) { return image->path ? image->path : ""; }

const known_image_t *hooks_image(const hooks_t *h, uint32_t number) {
  for (uint32_t i = 0; i < h->image_count; i++)
    if (h->images[i].number == number) return &h->images[i];
  return NULL;
}

/* ---- one slot ------------------------------------------------------------------------------- */

/* True if the slot leads into its own image, but not to the definition in that image. */
static bool is_unbound(const import_slots_t *slots, const slot_t *slot, const elf_sym_t *own,
                       uint64_t value) {
  return slot->kind == SLOT_JUMP && value >= slots->start && value < slots->end &&
         (!own || own->value + slots->slide != value);
}

/* True if the slot requests the symbol's version, or another version of the same definition. */
static bool requests_symbol(const hooks_t *h, const import_slots_t *slots, const symbol_t *symbol,
                            const slot_t *slot) {
  const char *version = import_slots_version(slots, slot->symbol, NULL);
  if (!version || !symbol->version[0] || import_slots_text_equal(version, symbol->version))
    return true;
  for (uint32_t i = 0; i < h->image_count; i++) {
    const import_slots_t *definer = &h->images[i].slots;
    uint32_t number;
    elf_sym_t sym;
    if (h->images[i].image.start != symbol->definer) continue;
    return import_slots_definition(definer, symbol->name, version, &number, &sym) &&
           sym.type != ELF_STT_GNU_IFUNC && sym.value + definer->slide == symbol->original;
  }
  return false;
}

/* True if VALUE, the content of the slot, leads to SYMBOL. */
static bool leads_to(const hooks_t *h, const known_image_t *known, const import_slots_t *slots,
                     const symbol_t *symbol, const slot_t *slot, uint64_t value) {
  uint32_t number;
  elf_sym_t sym;
  if (value == symbol->original || (value == symbol->canonical && value)) return true;
  bool defines = import_slots_definition(slots, symbol->name, NULL, &number, &sym);
  if (!is_unbound(slots, slot, defines ? &sym : NULL, value)) return false;
  return known->image.link_space == 0 && requests_symbol(h, slots, symbol, slot) &&
         (!defines || symbol->definer == slots->start);
}

/* ---- slots of unloaded images --------------------------------------------------------------- */

static void drop_places_of(hooks_t *h, uint32_t image, bool only_elsewhere) {
  for (symbol_t *symbol = h->symbols; symbol; symbol = symbol->next)
    for (uint32_t *link = &symbol->slots; *link != HOOK_NONE;) {
      uint32_t number = *link;
      place_t *place = &h->places[number];
      if (place->image != image || (only_elsewhere && place->state != SONDE_SLOT_ELSEWHERE)) {
        link = &place->next;
        continue;
      }
      *link = place->next;
      place->symbol = NULL;
      place->next = h->free_place;
      h->free_place = number;
    }
}

/* ---- one image ------------------------------------------------------------------------------ */

typedef struct search {
  hooks_t *hooks;
  const known_image_t *known;
  const import_slots_t *slots;
  bool only_new, has_taken;
  uint32_t seen, raw; /* slots of hooked names; those of them that are not relocated yet */
} search_t;

static bool is_recorded(const hooks_t *h, const symbol_t *symbol, uint64_t address) {
  for (uint32_t i = symbol->slots; i != HOOK_NONE; i = h->places[i].next)
    if (h->places[i].address == address) return true;
  return false;
}

static bool record_slot(const slot_t *slot, void *context) {
  search_t *s = context;
  uint64_t value = load_relaxed((const uint64_t *)(uintptr_t)slot->address);
  symbol_t *symbol = hooks_bucket(s->hooks, hooks_hash(slot->name));
  for (; symbol; symbol = symbol->same_hash) {
    if ((s->only_new && !symbol->is_new) || !import_slots_text_equal(slot->name, symbol->name))
      continue;
    s->seen++;
    s->raw += import_slots_is_raw(s->slots, value);
    if (s->known->is_partial && is_recorded(s->hooks, symbol, slot->address)) continue;
    place_t *place = hooks_new_place(s->hooks, symbol);
    if (!place) {
      s->hooks->out_of_memory = true;
      return false;
    }
    place->address = slot->address;
    place->old_value = place->new_value = value;
    place->image = s->known->number;
    place->kind = (uint8_t)slot->kind;
    place->is_taken = hooks_may_be_taken(slot->kind);
    s->has_taken |= place->is_taken;
    place->state = leads_to(s->hooks, s->known, s->slots, symbol, slot, value)
                       ? SONDE_SLOT_UNWANTED
                       : SONDE_SLOT_ELSEWHERE;
  }
  return true;
}

void hooks_search_again(hooks_t *h, known_image_t *known) {
  drop_places_of(h, known->number, true);
  known->is_searched = false;
  known->is_partial = true;
}

/* An image that another thread is loading may not be relocated yet; then it is searched again. */
static void search_image(hooks_t *h, known_image_t *known, const slot_names_t *names,
                         bool only_new) {
  search_t s = {.hooks = h, .known = known, .slots = &known->slots, .only_new = only_new};
  if (known->has_slots) import_slots_each(&known->slots, names, record_slot, &s);
  known->is_searched = true;
  known->is_partial = false;
  known->has_unread |= s.has_taken;
  if (s.raw > 0 && s.raw == s.seen && !only_new) hooks_search_again(h, known);
}

/* ---- loaded and unloaded images ------------------------------------------------------------- */

static bool same_table(slot_table_t a, slot_table_t b) {
  return a.data == b.data && a.count == b.count;
}

/* True if IMAGE is the known image K. An equal address is not sufficient: another image may have
 * been loaded there since, with its path in the same memory. So the tables are compared. */
static bool is_known(const known_image_t *k, const os_image_t *image) {
  import_slots_t now;
  if (k->image.start != image->start || k->image.end != image->end ||
      k->image.phdr != image->phdr || k->image.path != image->path ||
      k->path_hash != hooks_hash(image_path(image)) ||
      k->has_slots != import_slots_read(&now, image))
    return false;
  const import_slots_t *s = &k->slots;
  return !k->has_slots || (s->dynamic == now.dynamic && s->names == now.names &&
                           s->names_size == now.names_size && same_table(s->plt, now.plt) &&
                           same_table(s->rela, now.rela) && same_table(s->symbols, now.symbols));
}

static bool record_image(const os_image_t *image, void *context) {
  hooks_t *h = context;
  for (uint32_t i = 0; i < h->image_count; i++) {
    known_image_t *k = &h->images[i];
    if (k->image.start != image->start || k->is_present) continue;
    if (!is_known(k, image)) break;
    k->is_present = true;
    return true;
  }
  if (!hooks_add_image(h, image)) h->out_of_memory = true;
  return true;
}

static void drop_image(hooks_t *h, const known_image_t *known) {
  drop_places_of(h, known->number, false);
  filter_image_gone(h, known->image.start);
}

/* Images are in load order; new ones are at the end. */
void hooks_scan_images(hooks_t *h) {
  uint32_t kept = 0;
  uint64_t epoch = os_loader_epoch();
  if (epoch && epoch == h->epoch) return;
  h->epoch = h->out_of_memory ? 0 : epoch;
  for (uint32_t i = 0; i < h->image_count; i++)
    h->images[i].is_present = false;
  os_images(record_image, h);
  for (uint32_t i = 0; i < h->image_count; i++) {
    if (h->images[i].is_present)
      h->images[kept++] = h->images[i];
    else
      drop_image(h, &h->images[i]);
  }
  h->image_count = kept;
}

static bool names_of(const hooks_t *h, slot_names_t *names, bool only_new) {
  bool any = false;
  *names = (slot_names_t){{0}};
  for (const symbol_t *symbol = h->symbols; symbol; symbol = symbol->next) {
    if (only_new && !symbol->is_new) continue;
    slot_names_add(names, symbol->name);
    any = true;
  }
  return any;
}

void hooks_scan_slots(hooks_t *h) {
  slot_names_t all, fresh;
  bool any = names_of(h, &all, false);
  for (uint32_t i = 0; i < ARRAY_COUNT(all.bits); i++)
    store_relaxed(&h->names.bits[i], all.bits[i]);
  bool any_new = names_of(h, &fresh, true);
  for (uint32_t i = 0; i < h->image_count; i++) {
    known_image_t *known = &h->images[i];
    if (!known->is_searched && any)
      search_image(h, known, &all, false);
    else if (known->is_searched && any_new)
      search_image(h, known, &fresh, true);
  }
  for (symbol_t *symbol = h->symbols; symbol; symbol = symbol->next)
    symbol->is_new = false;
  for (uint32_t i = 0; i < h->image_count && filter_has_calls_only(); i++) {
    if (h->images[i].has_unread) hooks_read_code(h, &h->images[i]);
    h->images[i].has_unread = false;
  }
}
