/* SPDX-License-Identifier: MIT
 *
 * The list of slots, and the first of its three sources: the indirect symbols. See macho/slots.h.
 */
#include "image/macho/slots.h"

#include "base/bits.h"
#include "image/macho/format.h"

#define SLOTS_MAX (1u << 21) /* the largest programs have some 100,000 */

section_t macho_text(section_t text) {
  while (text.size && text.data[text.size - 1])
    text.size--;
  return text;
}

/* ---- the list ------------------------------------------------------------------------------- */

static bool grow(macho_slot_list_t *list) {
  uint32_t room = list->room ? list->room * 2 : 256;
  macho_slot_t *items = room <= SLOTS_MAX ? os_map(room * sizeof *items) : NULL;
  if (!items) return false;
  if (list->items) {
    __builtin_memcpy(items, list->items, list->count * sizeof *items);
    os_unmap(list->items, list->room * sizeof *items);
  }
  list->items = items;
  list->room = room;
  return true;
}

bool macho_slots_add(macho_slot_list_t *list, const macho_slot_t *slot) {
  unsigned width = list->image->is_64bit ? 8 : 4;
  bool inside = false;
  for (uint32_t i = 0; i < list->segment_count && !inside; i++)
    inside = slot->address >= list->segment_address[i] && list->segment_size[i] >= width &&
             slot->address - list->segment_address[i] <= list->segment_size[i] - width;
  if (!inside || !slot->name) {
    list->broken++;
    return true;
  }
  if (list->count == list->room && !grow(list)) return false;
  list->items[list->count++] = *slot;
  return true;
}

void macho_slots_free(macho_slot_list_t *list) {
  if (list->items) os_unmap(list->items, list->room * sizeof *list->items);
  *list = (macho_slot_list_t){0};
}

/* Heapsort: in place, and without slow inputs. */
static void sift(macho_slot_t *items, uint32_t from, uint32_t count) {
  macho_slot_t moving = items[from];
  for (uint32_t child; (child = 2 * from + 1) < count; from = child) {
    if (child + 1 < count && items[child + 1].address > items[child].address) child++;
    if (items[child].address <= moving.address) break;
    items[from] = items[child];
  }
  items[from] = moving;
}

static void sort(macho_slot_t *items, uint32_t count) {
  for (uint32_t i = count / 2; i-- > 0;)
    sift(items, i, count);
  for (uint32_t i = count; i-- > 1;) {
    macho_slot_t last = items[i];
    items[i] = items[0];
    items[0] = last;
    sift(items, 0, i);
  }
}

/* Returns true if A has more facts than B: opcodes and chains have more than an indirect symbol. */
static bool says_more(const macho_slot_t *a, const macho_slot_t *b) {
  unsigned more = MACHO_SLOT_BIND | MACHO_SLOT_LAZY_BIND | MACHO_SLOT_CHAINED;
  return (a->found & more) && !(b->found & more);
}

static void merge(macho_slot_list_t *list) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    const macho_slot_t next = list->items[i];
    macho_slot_t *last = kept ? &list->items[kept - 1] : NULL;
    if (!last || last->address != next.address) {
      list->items[kept++] = next;
      continue;
    }
    macho_slot_t both = says_more(&next, last) ? next : *last;
    both.found = last->found | next.found;
    both.is_weak |= last->is_weak | next.is_weak;
    both.is_defined = last->is_defined | next.is_defined;
    *last = both;
  }
  list->count = kept;
}

const macho_slot_t *macho_slot_at(const macho_slot_list_t *list, uint64_t address) {
  uint32_t low = 0, high = list->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (list->items[middle].address < address)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < list->count && list->items[low].address == address;
  return found ? &list->items[low] : NULL;
}

/* ---- indirect symbols ----------------------------------------------------------------------- */

static unsigned pointer_section(const macho_section_t *section) {
  switch (section->flags & MACHO_S_TYPE_MASK) {
  case MACHO_S_LAZY_POINTERS:
  case MACHO_S_LAZY_DYLIB_POINTERS: return MACHO_SLOT_LAZY;
  case MACHO_S_NON_LAZY_POINTERS: return MACHO_SLOT_NON_LAZY;
  default: return 0;
  }
}

static bool read_section(macho_slot_list_t *list, const macho_section_t *section, unsigned found,
                         const section_t *names) {
  const image_t *image = list->image;
  const section_t *indirect = &image->macho.indirect_symbols;
  elf_shape_t shape = macho_shape(image->is_64bit, image->is_big_endian);
  unsigned width = image->is_64bit ? 8 : 4, entry = macho_nlist_size(shape);
  for (uint64_t i = 0; i < section->size / width; i++) {
    uint64_t at = ((uint64_t)section->reserved1 + i) * 4;
    if (at + 4 > indirect->size) break;
    uint32_t index = elf_u32(shape, indirect->data + at);
    if (index & (MACHO_INDIRECT_LOCAL | MACHO_INDIRECT_ABS)) continue; /* no symbol */
    if (index >= image->symtab.size / entry) {
      list->broken++;
      continue;
    }
    macho_nlist_t n = macho_nlist(shape, image->symtab.data + (uint64_t)index * entry);
    bool is_defined = (n.type & MACHO_N_TYPE) != MACHO_N_UNDF;
    uint8_t ordinal = (uint8_t)(n.description >> 8);
    macho_slot_t slot = {.address = section->address + i * width,
                         .name = macho_text_at(names, n.name),
                         .library = is_defined ? MACHO_LIBRARY_SELF : (int8_t)ordinal,
                         .found = (uint8_t)found,
                         .is_weak = !is_defined && (n.description & MACHO_N_WEAK_REF),
                         .is_defined = is_defined};
    if (!is_defined && ordinal > 0 && ordinal < 0xf0) slot.library = ordinal;
    if (!macho_slots_add(list, &slot)) return false;
  }
  return true;
}

static bool read_indirect(macho_slot_list_t *list) {
  macho_sections_t walk = {0};
  macho_section_t section;
  const section_t names = macho_text(list->image->symtab_names);
  while (macho_next_section(list->image, &walk, &section)) {
    unsigned found = pointer_section(&section);
    if (found && !read_section(list, &section, found, &names)) return false;
  }
  return true;
}

/* ---- all encodings ------------------------------------------------------------------------------
 */

bool macho_slots_read(const image_t *image, macho_slot_list_t *list) {
  *list = (macho_slot_list_t){.image = image};
  list->segment_count = macho_segments(image, list->segment_address, list->segment_size,
                                       ARRAY_COUNT(list->segment_address));
  if (!read_indirect(list) || !macho_slots_read_binds(list) || !macho_slots_read_chains(list)) {
    macho_slots_free(list);
    return false;
  }
  sort(list->items, list->count);
  merge(list);
  return true;
}
