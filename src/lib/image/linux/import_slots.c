/* SPDX-License-Identifier: MIT
 *
 * Import slots of a live image from its relocations, its symbol versions, and its definitions by
 * name (ELF gABI chapter 5; LSB "Symbol Versioning"; the GNU hash table as in os/linux/dynamic.c).
 *
 * Hooking fifty names in a large process walks a hundred thousand relocations, and almost none of
 * their names is wanted. So the first eight characters of a name are read as one word and looked up
 * in a small bit set before any comparison.
 */
#include "image/import_slots.h"

#include "base/bits.h"
#include "image/import_slot_names.h"

#define SHAPE           ((elf_shape_t){.is_64bit = true})
#define DYNAMIC_MAX     1024u
#define RELA_SIZE       24u
#define VERSION_ENTRIES 65536u
#define RELRO_PAGE      4096u /* linkers align it to at least this; the loader rounds down */

/* ---- the dynamic section -------------------------------------------------------------------- */

static const segment_t *segment_of(const import_slots_t *s, uint64_t address) {
  for (uint32_t i = 0; i < s->segment_count; i++)
    if (address - s->segments[i].address < s->segments[i].size) return &s->segments[i];
  return NULL;
}

/* The bytes from ADDRESS (run-time) to the end of its segment, or 0 if it is in none. */
static uint64_t room_at(const import_slots_t *s, uint64_t address) {
  const segment_t *segment = segment_of(s, address);
  return segment ? segment->address + segment->size - address : 0;
}

static bool read_segments(import_slots_t *s, const os_image_t *image, uint64_t *dynamic) {
  *dynamic = 0;
  for (uint32_t i = 0; i < image->phdr_count && image->phdr; i++) {
    const uint8_t *at = (const uint8_t *)(uintptr_t)image->phdr + (uint64_t)i * 56;
    elf_phdr_t p = elf_phdr(SHAPE, at);
    if (p.type == ELF_PT_GNU_RELRO) {
      s->relro_start = ALIGN_DOWN(p.vaddr + image->slide, RELRO_PAGE);
      s->relro_end = ALIGN_DOWN(p.vaddr + p.memsz + image->slide, RELRO_PAGE);
    }
    if (p.type == ELF_PT_DYNAMIC) *dynamic = p.vaddr + image->slide;
    if (p.type != ELF_PT_LOAD || p.memsz == 0 || s->segment_count == IMAGE_SEGMENTS_MAX) continue;
    s->segments[s->segment_count++] =
        (segment_t){.address = p.vaddr + image->slide, .size = p.memsz, .flags = p.flags};
  }
  return *dynamic != 0;
}

/* The run-time address of a pointer in the dynamic section. glibc has relocated these pointers in
 * place; musl and the kernel's vDSO have not. */
static uint64_t moved(const import_slots_t *s, uint64_t value) {
  return value >= s->start && value < s->end ? value : value + s->slide;
}

static slot_table_t table(const import_slots_t *s, uint64_t value, uint64_t entry, uint64_t bytes) {
  uint64_t address = moved(s, value), room = value ? room_at(s, address) : 0;
  if (room == 0 || (bytes != UINT64_MAX && bytes > room)) return (slot_table_t){0};
  return (slot_table_t){(const uint8_t *)(uintptr_t)address,
                        (bytes == UINT64_MAX ? room : bytes) / entry};
}

typedef struct tags {
  uint64_t value[40]; /* of the tags below 40 */
  uint64_t versym, verneed, verneed_count, verdef, verdef_count, gnu_hash;
  uint64_t relative_count;
} tags_t;

static void take_tag(tags_t *t, uint64_t tag, uint64_t value) {
  if (tag < ARRAY_COUNT(t->value)) t->value[tag] = value;
  switch (tag) {
  case ELF_DT_VERSYM: t->versym = value; break;
  case ELF_DT_VERNEED: t->verneed = value; break;
  case ELF_DT_VERNEEDNUM: t->verneed_count = value; break;
  case ELF_DT_VERDEF: t->verdef = value; break;
  case ELF_DT_VERDEFNUM: t->verdef_count = value; break;
  case ELF_DT_GNU_HASH: t->gnu_hash = value; break;
  case ELF_DT_RELACOUNT: t->relative_count = value; break;
  default: break;
  }
}

/* The linker sorts relocations without a symbol to the front: a million of them in a browser, which
 * is searched again for each loaded library. */
static slot_table_t without_relative(slot_table_t rela, uint64_t count) {
  if (count > rela.count) count = rela.count;
  return (slot_table_t){rela.data ? rela.data + count * RELA_SIZE : NULL, rela.count - count};
}

static void take_tables(import_slots_t *s, const tags_t *t) {
  const uint64_t all = UINT64_MAX;
  s->symbols = table(s, t->value[ELF_DT_SYMTAB], ELF_SYM_MAX, all);
  slot_table_t names = table(s, t->value[ELF_DT_STRTAB], 1, t->value[ELF_DT_STRSZ]);
  s->names = (const char *)names.data;
  s->names_size = names.count;
  s->plt = table(s, t->value[ELF_DT_JMPREL], RELA_SIZE, t->value[ELF_DT_PLTRELSZ]);
  s->rela = table(s, t->value[ELF_DT_RELA], RELA_SIZE, t->value[ELF_DT_RELASZ]);
  s->rela = without_relative(s->rela, t->relative_count);
  s->versions = table(s, t->versym, 2, all);
  s->needed = table(s, t->verneed, 1, all).data;
  s->needed_count = t->verneed_count;
  s->defined = table(s, t->verdef, 1, all).data;
  s->defined_count = t->verdef_count;
  s->gnu_hash = table(s, t->gnu_hash, 4, all);
  s->sysv_hash = table(s, t->value[ELF_DT_HASH], 4, all);
  s->is_symbolic = t->value[ELF_DT_SYMBOLIC] != 0 || (t->value[ELF_DT_FLAGS] & ELF_DF_SYMBOLIC);
}

bool import_slots_read(import_slots_t *s, const os_image_t *image) {
  uint64_t dynamic;
  *s = (import_slots_t){.slide = image->slide, .start = image->start, .end = image->end};
  if (!read_segments(s, image, &dynamic)) return false;
  tags_t t = {0};
  s->dynamic = (const uint8_t *)(uintptr_t)dynamic;
  uint64_t room = room_at(s, dynamic) / 16;
  for (uint64_t i = 0; i < room && i < DYNAMIC_MAX; i++) {
    uint64_t tag = elf_u64(SHAPE, s->dynamic + i * 16);
    if (tag == ELF_DT_NULL) break;
    if (tag == ELF_DT_SYMBOLIC)
      t.value[ELF_DT_SYMBOLIC] = 1;
    else
      take_tag(&t, tag, elf_u64(SHAPE, s->dynamic + i * 16 + 8));
  }
  take_tables(s, &t);
  return s->symbols.data && s->names_size > 0 && s->names[s->names_size - 1] == 0;
}

/* ---- slots ---------------------------------------------------------------------------------- */

static ALWAYS_INLINE bool may_be_wanted(const slot_names_t *names, const char *name,
                                        uint64_t room) {
  uint32_t hash = slot_name_hash(name, room);
  return names->bits[hash >> 6] >> (hash & 63) & 1;
}

static const char *name_at(const import_slots_t *s, uint64_t offset) {
  return offset < s->names_size ? s->names + offset : NULL;
}

static ALWAYS_INLINE bool kind_of(uint32_t type, slot_kind_t *out) {
#if defined(__x86_64__)
  const uint32_t jump = ELF_R_X86_64_JUMP_SLOT, got = ELF_R_X86_64_GLOB_DAT, data = ELF_R_X86_64_64;
#else
  const uint32_t jump = ELF_R_AARCH64_JUMP_SLOT, got = ELF_R_AARCH64_GLOB_DAT,
                 data = ELF_R_AARCH64_ABS64;
#endif
  *out = type == jump ? SLOT_JUMP : type == got ? SLOT_GLOB_DAT : SLOT_DATA;
  return type == jump || type == got || type == data;
}

static bool each_in(const import_slots_t *s, slot_table_t relocations, const slot_names_t *names,
                    bool (*visit)(const slot_t *slot, void *context), void *context) {
  const segment_t *segment = NULL;
  for (uint64_t i = 0; i < relocations.count; i++) {
    const uint8_t *r = relocations.data + i * RELA_SIZE;
    uint64_t info = elf_u64(SHAPE, r + 8);
    slot_t slot = {.symbol = (uint32_t)(info >> 32)};
    if (slot.symbol == 0 || slot.symbol >= s->symbols.count) continue;
    if (!kind_of((uint32_t)info, &slot.kind)) continue;
    uint32_t name = elf_u32(SHAPE, s->symbols.data + (uint64_t)slot.symbol * ELF_SYM_MAX);
    if (name == 0 || name >= s->names_size) continue;
    slot.name = s->names + name;
    if (names && !may_be_wanted(names, slot.name, s->names_size - name)) continue;
    if (slot.kind != SLOT_JUMP && elf_u64(SHAPE, r + 16) != 0) continue;
    slot.address = elf_u64(SHAPE, r) + s->slide;
    if (!segment || slot.address - segment->address >= segment->size)
      segment = segment_of(s, slot.address);
    if (!segment || slot.address % 8 || segment->address + segment->size - slot.address < 8)
      continue;
    if (!visit(&slot, context)) return false;
  }
  return true;
}

void import_slots_each(const import_slots_t *slots, const slot_names_t *names,
                       bool (*visit)(const slot_t *slot, void *context), void *context) {
  if (each_in(slots, slots->plt, names, visit, context))
    (void)each_in(slots, slots->rela, names, visit, context);
}

/* ---- versions ------------------------------------------------------------------------------- */

/* Both tables are chains of entries, each with a chain of names. Offsets are relative; 0 ends a
 * chain. */
static const char *needed_version(const import_slots_t *s, uint16_t index) {
  const uint8_t *at = s->needed;
  for (uint64_t i = 0; at && i < s->needed_count && i < VERSION_ENTRIES; i++) {
    if (room_at(s, (uintptr_t)at) < 16) return NULL;
    const uint8_t *aux = at + elf_u32(SHAPE, at + 8);
    uint16_t count = elf_u16(SHAPE, at + 2);
    for (uint16_t j = 0; j < count && room_at(s, (uintptr_t)aux) >= 16; j++) {
      if ((elf_u16(SHAPE, aux + 6) & 0x7fff) == index) return name_at(s, elf_u32(SHAPE, aux + 8));
      uint32_t next = elf_u32(SHAPE, aux + 12);
      if (!next) break;
      aux += next;
    }
    uint32_t next = elf_u32(SHAPE, at + 12);
    if (!next) break;
    at += next;
  }
  return NULL;
}

static const char *defined_version(const import_slots_t *s, uint16_t index) {
  const uint8_t *at = s->defined;
  for (uint64_t i = 0; at && i < s->defined_count && i < VERSION_ENTRIES; i++) {
    if (room_at(s, (uintptr_t)at) < 20) return NULL;
    const uint8_t *aux = at + elf_u32(SHAPE, at + 12);
    if ((elf_u16(SHAPE, at + 4) & 0x7fff) == index && room_at(s, (uintptr_t)aux) >= 8)
      return name_at(s, elf_u32(SHAPE, aux));
    uint32_t next = elf_u32(SHAPE, at + 16);
    if (!next) break;
    at += next;
  }
  return NULL;
}

const char *import_slots_version(const import_slots_t *s, uint32_t symbol, bool *hidden) {
  if (hidden) *hidden = false;
  if (!s->versions.data || symbol >= s->versions.count) return NULL;
  uint16_t version = elf_u16(SHAPE, s->versions.data + (uint64_t)symbol * 2);
  if (hidden) *hidden = (version & 0x8000) != 0;
  version &= 0x7fff;
  if (version < 2) return NULL; /* local, or the version of the whole image */
  const char *text = defined_version(s, version);
  return text ? text : needed_version(s, version);
}

/* ---- definitions ---------------------------------------------------------------------------- */

static uint32_t word(slot_table_t t, uint64_t i) {
  return i < t.count ? elf_u32(SHAPE, t.data + i * 4) : 0;
}

static bool is_definition(const import_slots_t *s, uint32_t symbol, const char *name,
                          const char *version, elf_sym_t *out) {
  if (symbol == 0 || symbol >= s->symbols.count) return false;
  *out = elf_sym(SHAPE, s->symbols.data + (uint64_t)symbol * ELF_SYM_MAX);
  const char *own = name_at(s, out->name);
  if (out->shndx == ELF_SHN_UNDEF || out->binding == ELF_STB_LOCAL || !own ||
      !import_slots_text_equal(own, name))
    return false;
  bool hidden;
  const char *have = import_slots_version(s, symbol, &hidden);
  return version ? have && import_slots_text_equal(have, version) : !hidden;
}

/* The table's Bloom filter: each name sets two bits of one 64-bit word. */
static bool bloom_may_hold(slot_table_t t, uint32_t hash) {
  uint32_t words = word(t, 2), shift = word(t, 3) & 31;
  if (words == 0) return true;
  uint64_t at = 4 + 2 * (uint64_t)(hash / 64 % words);
  uint64_t bits = word(t, at) | (uint64_t)word(t, at + 1) << 32;
  return bits >> (hash & 63) & bits >> (hash >> shift & 63) & 1;
}

static bool definition_gnu(const import_slots_t *s, const char *name, const char *version,
                           uint32_t *symbol, elf_sym_t *out) {
  slot_table_t t = s->gnu_hash;
  uint32_t hash = 5381, buckets = word(t, 0), first = word(t, 1);
  for (const char *c = name; *c; c++)
    hash = hash * 33 + (uint8_t)*c;
  uint64_t bucket_at = 4 + 2 * (uint64_t)word(t, 2), chain_at = bucket_at + buckets;
  if (buckets == 0 || !bloom_may_hold(t, hash)) return false;
  uint32_t index = word(t, bucket_at + hash % buckets);
  for (; index >= first && index != 0; index++) {
    uint64_t at = chain_at + index - first;
    uint32_t link = word(t, at);
    if ((link | 1) == (hash | 1) && is_definition(s, index, name, version, out)) {
      *symbol = index;
      return true;
    }
    if (at >= t.count || (link & 1)) break;
  }
  return false;
}

static bool definition_sysv(const import_slots_t *s, const char *name, const char *version,
                            uint32_t *symbol, elf_sym_t *out) {
  slot_table_t t = s->sysv_hash;
  uint32_t hash = 0, buckets = word(t, 0), count = word(t, 1);
  for (const char *c = name; *c; c++) {
    hash = (hash << 4) + (uint8_t)*c;
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  if (buckets == 0) return false;
  uint32_t index = word(t, 2 + hash % buckets);
  for (uint64_t steps = 0; index != 0 && steps < count && steps < t.count; steps++) {
    if (is_definition(s, index, name, version, out)) {
      *symbol = index;
      return true;
    }
    index = word(t, 2 + (uint64_t)buckets + index);
  }
  return false;
}

bool import_slots_definition(const import_slots_t *slots, const char *name, const char *version,
                             uint32_t *symbol, elf_sym_t *out) {
  return slots->gnu_hash.data
             ? definition_gnu(slots, name, version, symbol, out)
             : slots->sysv_hash.data && definition_sysv(slots, name, version, symbol, out);
}
