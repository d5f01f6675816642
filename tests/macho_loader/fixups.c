/* SPDX-License-Identifier: MIT
 *
 * Fills in an image's pointers: by rebase and bind opcodes (LC_DYLD_INFO_ONLY; lazy ones at once),
 * or along chained fixups. The layout of the latter is not in the headers at hand: struct
 * dyld_chained_fixups_header, dyld_chained_starts_in_segment and the import format 1 as the linker
 * writes them (mach-o/fixup-chains.h of Apple's dyld).
 */
#include <string.h>

#include "loader.h"

static uint64_t uleb(const uint8_t **at) {
  uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) return value;
  }
}

static int64_t sleb(const uint8_t **at) {
  int64_t value = 0;
  unsigned shift = 0;
  uint8_t byte;
  do {
    byte = *(*at)++;
    value |= (int64_t)(byte & 127) << shift;
    shift += 7;
  } while (byte & 128);
  return byte & 64 && shift < 64 ? value | -((int64_t)1 << shift) : value;
}

void *resolve(const mac_image_t *image, const char *name, int ordinal, bool is_weak) {
  void *found = NULL;
  if (ordinal == 0) {
    found = image_export(image, name);
  } else if (ordinal < 0) { /* wherever it is */
    for (int i = 0; i < image_count && !found; i++)
      found = image_export(&images[i], name);
    if (!found) found = stand_in(name);
  } else if (ordinal <= image->library_count &&
             strncmp(image->libraries[ordinal], "/usr/lib/", 9) != 0) {
    const char *base = strrchr(image->libraries[ordinal], '/');
    for (int i = 0; i < image_count && !found; i++) {
      const char *other = strrchr(images[i].path, '/');
      if (other && base && strcmp(other, base) == 0) found = image_export(&images[i], name);
    }
  } else {
    found = stand_in(name);
  }
  if (!found && !is_weak) die("%s imports %s, for which there is no stand-in", image->path, name);
  return found;
}

/* ---- opcodes -------------------------------------------------------------------------------- */

static void rebase_one(const mac_image_t *image, uint64_t *at) {
  uint64_t *place = (uint64_t *)(*at + (uint64_t)image->slide);
  *place += (uint64_t)image->slide;
  *at += 8;
}

static void rebase(const mac_image_t *image) {
  const uint8_t *at = image->file + image->rebase[0], *end = at + image->rebase[1];
  uint64_t address = 0;
  while (at < end) {
    uint8_t byte = *at++, immediate = byte & 15;
    uint64_t count = 0, skip = 0;
    switch (byte & FACT_REBASE_OPCODE_MASK) {
    case 0: return;
    case FACT_REBASE_OPCODE_SET_TYPE_IMM: continue;
    case FACT_REBASE_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB:
      address = image->segments[immediate].address + uleb(&at);
      continue;
    case FACT_REBASE_OPCODE_ADD_ADDR_ULEB: address += uleb(&at); continue;
    case FACT_REBASE_OPCODE_ADD_ADDR_IMM_SCALED: address += immediate * 8u; continue;
    case FACT_REBASE_OPCODE_DO_REBASE_IMM_TIMES: count = immediate; break;
    case FACT_REBASE_OPCODE_DO_REBASE_ULEB_TIMES: count = uleb(&at); break;
    case FACT_REBASE_OPCODE_DO_REBASE_ADD_ADDR_ULEB:
      count = 1;
      skip = uleb(&at);
      break;
    case FACT_REBASE_OPCODE_DO_REBASE_ULEB_TIMES_SKIPPING_ULEB:
      count = uleb(&at);
      skip = uleb(&at);
      break;
    default: die("%s has a rebase opcode %#x", image->path, byte);
    }
    while (count--) {
      rebase_one(image, &address);
      address += skip;
    }
  }
}

typedef struct binding {
  const char *name;
  int ordinal;
  bool is_weak;
  int64_t addend;
  uint64_t address;
} binding_t;

static void bind_one(const mac_image_t *image, binding_t *b, uint64_t skip) {
  char *value = resolve(image, b->name, b->ordinal, b->is_weak);
  *(uint64_t *)(b->address + (uint64_t)image->slide) = (uint64_t)value + (uint64_t)b->addend;
  b->address += 8 + skip;
}

/* A DONE ends the whole list, or, of lazy ones, one entry. */
static void bind(const mac_image_t *image, const uint32_t range[2], bool is_lazy) {
  const uint8_t *at = image->file + range[0], *end = at + range[1];
  binding_t b = {0};
  while (at < end) {
    uint8_t byte = *at++, immediate = byte & 15;
    uint64_t count, skip;
    switch (byte & 0xf0) {
    case FACT_BIND_OPCODE_DONE:
      if (!is_lazy) return;
      continue;
    case FACT_BIND_OPCODE_SET_DYLIB_ORDINAL_IMM: b.ordinal = immediate; continue;
    case FACT_BIND_OPCODE_SET_DYLIB_ORDINAL_ULEB: b.ordinal = (int)uleb(&at); continue;
    case FACT_BIND_OPCODE_SET_DYLIB_SPECIAL_IMM:
      b.ordinal = immediate ? (int8_t)(immediate | 0xf0) : 0;
      continue;
    case FACT_BIND_OPCODE_SET_SYMBOL_TRAILING_FLAGS_IMM:
      b.is_weak = immediate & FACT_BIND_SYMBOL_FLAGS_WEAK_IMPORT;
      b.name = (const char *)at;
      at += strlen(b.name) + 1;
      continue;
    case FACT_BIND_OPCODE_SET_TYPE_IMM: continue;
    case FACT_BIND_OPCODE_SET_ADDEND_SLEB: b.addend = sleb(&at); continue;
    case FACT_BIND_OPCODE_SET_SEGMENT_AND_OFFSET_ULEB:
      b.address = image->segments[immediate].address + uleb(&at);
      continue;
    case FACT_BIND_OPCODE_ADD_ADDR_ULEB: b.address += uleb(&at); continue;
    case FACT_BIND_OPCODE_DO_BIND: bind_one(image, &b, 0); continue;
    case FACT_BIND_OPCODE_DO_BIND_ADD_ADDR_ULEB: bind_one(image, &b, uleb(&at)); continue;
    case FACT_BIND_OPCODE_DO_BIND_ADD_ADDR_IMM_SCALED:
      bind_one(image, &b, immediate * 8u);
      continue;
    case FACT_BIND_OPCODE_DO_BIND_ULEB_TIMES_SKIPPING_ULEB:
      count = uleb(&at);
      skip = uleb(&at);
      while (count--)
        bind_one(image, &b, skip);
      continue;
    default: die("%s has a bind opcode %#x", image->path, byte);
    }
  }
}

/* ---- chains --------------------------------------------------------------------------------- */

typedef struct chains_header {
  uint32_t version, starts_offset, imports_offset, symbols_offset, imports_count, imports_format,
      symbols_format;
} chains_header_t;

typedef struct chain_starts {
  uint32_t size;
  uint16_t page_size, pointer_format;
  uint64_t segment_offset;
  uint32_t max_valid_pointer;
  uint16_t page_count;
  uint16_t page_start[];
} chain_starts_t;

#define CHAIN_64        2 /* a rebase's target is an address */
#define CHAIN_64_OFFSET 6 /* a rebase's target is an offset from the header */
#define NO_CHAIN        0xffff

static void follow_chain(const mac_image_t *image, const chains_header_t *header, uint64_t *at,
                         int format) {
  const uint8_t *base = (const uint8_t *)header;
  for (;;) {
    uint64_t word = *at, next = word >> 51 & 0xfff;
    if (word >> 63) { /* bind: 24 bits of ordinal, 8 of addend */
      uint32_t import;
      memcpy(&import, base + header->imports_offset + (word & 0xffffff) * 4, 4);
      const char *name = (const char *)base + header->symbols_offset + (import >> 9);
      void *value = resolve(image, name, (int8_t)(import & 0xff), import >> 8 & 1);
      *at = (uint64_t)value + (word >> 24 & 0xff);
    } else { /* 36 bits of target, 8 that go on top */
      uint64_t target = (word & 0xfffffffff) | (word >> 36 & 0xff) << 56;
      *at = target + (format == CHAIN_64 ? (uint64_t)image->slide : (uint64_t)image->header);
    }
    if (!next) return;
    at += next / 2; /* counted in 4 bytes */
  }
}

static void fix_chains(const mac_image_t *image) {
  const uint8_t *base = image->file + image->chained[0];
  const chains_header_t *header = (const chains_header_t *)base;
  if (header->imports_format != 1) die("%s: import format %u", image->path, header->imports_format);
  const uint32_t *starts = (const uint32_t *)(base + header->starts_offset);
  for (uint32_t i = 0; i < starts[0]; i++) {
    if (!starts[1 + i]) continue;
    const chain_starts_t *s =
        (const chain_starts_t *)(base + header->starts_offset + starts[1 + i]);
    if (s->pointer_format != CHAIN_64 && s->pointer_format != CHAIN_64_OFFSET)
      die("%s: pointer format %u", image->path, s->pointer_format);
    for (uint16_t page = 0; page < s->page_count; page++) {
      if (s->page_start[page] == NO_CHAIN) continue;
      uint8_t *at =
          image->header + s->segment_offset + (uint64_t)page * s->page_size + s->page_start[page];
      follow_chain(image, header, (uint64_t *)at, s->pointer_format);
    }
  }
}

void image_fix(mac_image_t *image) {
  if (image->chained[1]) {
    fix_chains(image);
    return;
  }
  rebase(image);
  bind(image, image->bind, false);
  bind(image, image->lazy, true);
}
