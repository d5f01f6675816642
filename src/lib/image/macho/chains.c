/* SPDX-License-Identifier: MIT
 *
 * Chained fixups (mach-o/fixup-chains.h). Each page of a segment has a chain through the words that
 * dyld changes: each word holds its kind and the distance to the next one. A bound word holds the
 * number of an entry in the table of imports. Formats differ only in the positions of these bits,
 * so each format is a row of numbers here. See macho/slots.h.
 */
#include "base/bits.h"
#include "image/macho/format.h"
#include "image/macho/slots.h"

#define START_NONE     0xffffu
#define START_MULTIPLE 0x8000u /* the page has several chains; the other bits are an index */
#define START_LAST     0x8000u /* the last entry of such a list */

/* The positions of the bits of a pointer format. */
typedef struct format {
  uint8_t width, stride; /* bytes */
  uint8_t bind_bit;      /* 0: this format has no binds */
  uint8_t next_shift, next_bits;
  uint8_t ordinal_bits;
  uint8_t addend_shift, addend_bits;
  bool is_signed; /* bit 63 marks an authenticated pointer */
} format_t;

/* Indexed by DYLD_CHAINED_PTR_…. The formats of the kernel's caches have no binds. */
static const format_t formats[] = {
    [1] = {8, 8, 62, 51, 11, 16, 32, 19, true},  /* ARM64E */
    [2] = {8, 4, 63, 51, 12, 24, 24, 8, false},  /* 64 */
    [3] = {4, 4, 31, 26, 5, 20, 20, 6, false},   /* 32 */
    [6] = {8, 4, 63, 51, 12, 24, 24, 8, false},  /* 64_OFFSET */
    [7] = {8, 4, 62, 51, 11, 16, 32, 19, true},  /* ARM64E_KERNEL */
    [9] = {8, 8, 62, 51, 11, 16, 32, 19, true},  /* ARM64E_USERLAND */
    [10] = {8, 4, 62, 51, 11, 16, 32, 19, true}, /* ARM64E_FIRMWARE */
    [12] = {8, 8, 62, 51, 11, 24, 32, 19, true}, /* ARM64E_USERLAND24 */
};

typedef struct chains {
  macho_slot_list_t *list;
  elf_shape_t shape;
  section_t table;   /* LC_DYLD_CHAINED_FIXUPS */
  section_t symbols; /* the names of the imports */
  uint64_t imports_at;
  uint32_t import_count, import_format;
  uint64_t words_left; /* in all chains: each word of the file is in one chain at most */
} chains_t;

/* Reads numbers of the table; 0 after its end. */
static uint32_t u32_at(const chains_t *c, uint64_t at) {
  return at <= c->table.size && c->table.size - at >= 4 ? elf_u32(c->shape, c->table.data + at) : 0;
}
static uint16_t u16_at(const chains_t *c, uint64_t at) {
  return at <= c->table.size && c->table.size - at >= 2 ? elf_u16(c->shape, c->table.data + at) : 0;
}
static uint64_t u64_at(const chains_t *c, uint64_t at) {
  return at <= c->table.size && c->table.size - at >= 8 ? elf_u64(c->shape, c->table.data + at) : 0;
}

static uint64_t bits(uint64_t word, unsigned shift, unsigned count) {
  return word >> shift & (((uint64_t)1 << count) - 1);
}

static int64_t signed_bits(uint64_t word, unsigned shift, unsigned count) {
  uint64_t value = bits(word, shift, count), sign = (uint64_t)1 << (count - 1);
  return (int64_t)((value ^ sign) - sign);
}

/* ---- imports -------------------------------------------------------------------------------- */

/* Formats: 1 is 8 bits of library, a weak bit, 23 bits of name; 2 adds a 32-bit addend; 3 has 16, 1
 * and 32 bits (after 15 of nothing) in a 64-bit word, and a 64-bit addend. */
static bool read_import(const chains_t *c, uint64_t ordinal, macho_slot_t *slot) {
  uint64_t name;
  if (ordinal >= c->import_count) return false;
  if (c->import_format == 1 || c->import_format == 2) {
    uint64_t at = c->imports_at + ordinal * (c->import_format == 1 ? 4 : 8);
    uint32_t word = u32_at(c, at);
    slot->library = (int32_t)(word & 0xff);
    if (slot->library >= 0xf0) slot->library -= 0x100;
    slot->is_weak = word >> 8 & 1;
    name = word >> 9;
    if (c->import_format == 2) slot->addend += (int32_t)u32_at(c, at + 4);
  } else if (c->import_format == 3) {
    uint64_t at = c->imports_at + ordinal * 16, word = u64_at(c, at);
    slot->library = (int32_t)(word & 0xffff);
    if (slot->library >= 0xfff0) slot->library -= 0x10000;
    slot->is_weak = word >> 16 & 1;
    name = word >> 32;
    slot->addend += (int64_t)u64_at(c, at + 8);
  } else {
    return false;
  }
  slot->name = macho_text_at(&c->symbols, name);
  return slot->name != NULL;
}

/* ---- chains --------------------------------------------------------------------------------- */

/* Adds the slot of a bound word. Returns false if memory is exhausted. */
static bool take_word(const chains_t *c, const format_t *f, uint64_t address, uint64_t word) {
  macho_slot_t slot = {.address = address, .found = MACHO_SLOT_CHAINED};
  if (!f->bind_bit || !(word >> f->bind_bit & 1)) return true;
  slot.is_signed = f->is_signed && word >> 63;
  if (slot.is_signed) {
    slot.diversity = (uint16_t)bits(word, 32, 16);
    slot.by_address = bits(word, 48, 1);
    slot.key = (uint8_t)bits(word, 49, 2);
  } else if (f->is_signed) {
    slot.addend = signed_bits(word, f->addend_shift, f->addend_bits);
  } else {
    slot.addend = (int64_t)bits(word, f->addend_shift, f->addend_bits);
  }
  if (read_import(c, bits(word, 0, f->ordinal_bits), &slot)) return macho_slots_add(c->list, &slot);
  c->list->broken++;
  return true;
}

/* Follows the chain that starts at offset START of the page at ADDRESS, whose bytes are PAGE. */
static bool follow(chains_t *c, const format_t *f, const section_t *page, uint64_t start) {
  for (uint64_t at = start; c->words_left;) {
    c->words_left--;
    if (at + f->width > page->size) break;
    uint64_t word =
        f->width == 8 ? elf_u64(c->shape, page->data + at) : elf_u32(c->shape, page->data + at);
    if (!take_word(c, f, page->address + at, word)) return false;
    uint64_t next = bits(word, f->next_shift, f->next_bits);
    if (next == 0) return true;
    at += next * f->stride;
  }
  c->list->broken++;
  return true;
}

/* Reads the chains of page I. The table has ROOM numbers of starts at STARTS. */
static bool read_page(chains_t *c, const format_t *f, const section_t *page, uint64_t starts,
                      uint64_t room, uint32_t i) {
  uint16_t start = u16_at(c, starts + (uint64_t)i * 2);
  if (start == START_NONE) return true;
  if (f->width == 8 || !(start & START_MULTIPLE)) return follow(c, f, page, start);
  /* The short distances of 32-bit formats need several chains. */
  for (uint64_t k = start & ~START_MULTIPLE; k < room && c->words_left; k++) {
    uint16_t more = u16_at(c, starts + k * 2);
    if (!follow(c, f, page, more & ~START_LAST)) return false;
    if (more & START_LAST) return true;
  }
  c->list->broken++;
  return true;
}

/* Returns the file's bytes for [ADDRESS, ADDRESS + SIZE), or the part of them that exists. */
static section_t page_bytes(const image_t *image, uint64_t address, uint64_t size) {
  for (uint32_t i = 0; i < image->segment_count; i++) {
    const segment_t *s = &image->segments[i];
    if (address < s->address || address - s->address >= s->file_size) continue;
    uint64_t into = address - s->address, left = s->file_size - into;
    section_t page = macho_bytes(image, s->file_offset + into, size < left ? size : left);
    page.address = address;
    return page;
  }
  return (section_t){0};
}

/* struct dyld_chained_starts_in_segment at AT: u32 size, u16 page_size, u16 pointer_format, u64
 * segment_offset, u32 max_valid_pointer, u16 page_count, u16 page_start[]. */
static bool read_segment(chains_t *c, uint64_t at) {
  uint32_t size = u32_at(c, at), page_size = u16_at(c, at + 4), pages = u16_at(c, at + 20);
  uint16_t number = u16_at(c, at + 6);
  uint64_t address = macho_header_address(c->list->image) + u64_at(c, at + 8);
  if (number >= ARRAY_COUNT(formats) || !formats[number].width)
    return true; /* a format without binds */
  for (uint32_t i = 0; i < pages && page_size && c->words_left; i++) {
    section_t page = page_bytes(c->list->image, address + (uint64_t)i * page_size, page_size);
    if (page.data &&
        !read_page(c, &formats[number], &page, at + 22, size < 22 ? 0 : (size - 22) / 2, i))
      return false;
  }
  return true;
}

bool macho_slots_read_chains(macho_slot_list_t *list) {
  chains_t c = {.list = list,
                .shape = macho_shape(list->image->is_64bit, list->image->is_big_endian),
                .table = list->image->macho.chained_fixups,
                .words_left = list->image->file_size / 4};
  if (!c.table.size) return true;
  if (!list->image->file) {
    list->needs_file = true;
    return true;
  }
  uint64_t starts = u32_at(&c, 4);
  c.imports_at = u32_at(&c, 8);
  uint64_t symbols = u32_at(&c, 12);
  c.import_count = u32_at(&c, 16);
  c.import_format = u32_at(&c, 20);
  if (u32_at(&c, 0) != 0 || u32_at(&c, 24) != 0 || symbols > c.table.size) {
    list->broken++; /* another version, or compressed names */
    return true;
  }
  c.symbols =
      macho_text((section_t){.data = c.table.data + symbols, .size = c.table.size - symbols});
  uint32_t segments = u32_at(&c, starts);
  for (uint32_t i = 0; i < segments && i < 64; i++) {
    uint32_t offset = u32_at(&c, starts + 4 + (uint64_t)i * 4);
    if (offset && !read_segment(&c, starts + offset)) return false;
  }
  return true;
}
