/* SPDX-License-Identifier: MIT
 *
 * Symbols of a loaded image by DT_GNU_HASH, or by DT_HASH if it has no other (ELF gABI chapter 5).
 * The GNU table has four header words: buckets, first hashed symbol, bloom words, bloom shift.
 */
#include "os/linux/dynamic.h"

#include <stddef.h>

/* The largest number of entries read if DT_NULL is missing. No linker writes so many. */
#define DYNAMIC_ENTRIES_MAX 512

void dynamic_read(dynamic_t *out, const Elf64_Dyn *entries, uint64_t slide, uint64_t start,
                  uint64_t end) {
  *out = (dynamic_t){.slide = slide};
  uint64_t soname = UINT64_MAX;
  for (int i = 0; i < DYNAMIC_ENTRIES_MAX && entries[i].d_tag != DT_NULL; i++) {
    uint64_t value = entries[i].d_un.d_val;
    /* glibc has relocated these addresses in place; musl and the kernel's vDSO have not */
    uintptr_t address = (uintptr_t)(value >= start && value < end ? value : value + slide);
    switch (entries[i].d_tag) {
    case DT_SYMTAB: out->symbols = (const Elf64_Sym *)address; break;
    case DT_STRTAB: out->names = (const char *)address; break;
    case DT_GNU_HASH: out->gnu_hash = (const uint32_t *)address; break;
    case DT_HASH: out->sysv_hash = (const uint32_t *)address; break;
    case DT_SONAME: soname = value; break;
    case DT_DEBUG: out->debug_address = value; break;
    default: break;
    }
  }
  if (soname != UINT64_MAX && out->names != NULL) out->soname = out->names + soname;
}

static bool is_defined(const dynamic_t *d, uint32_t index, const char *name) {
  const Elf64_Sym *s = &d->symbols[index];
  return s->st_shndx != SHN_UNDEF && text_equal(d->names + s->st_name, name);
}

static uint32_t find_gnu(const dynamic_t *d, const char *name) {
  uint32_t hash = 5381;
  for (const char *c = name; *c != '\0'; c++)
    hash = hash * 33 + (uint8_t)*c;
  uint32_t bucket_count = d->gnu_hash[0], first = d->gnu_hash[1], bloom_words = d->gnu_hash[2];
  if (bucket_count == 0) return 0;
  const uint32_t *buckets = d->gnu_hash + 4 + 2 * (size_t)bloom_words;
  const uint32_t *chains = buckets + bucket_count;
  uint32_t index = buckets[hash % bucket_count];
  if (index < first) return 0;
  for (;; index++) {
    uint32_t link = chains[index - first];
    if ((link | 1) == (hash | 1) && is_defined(d, index, name)) return index;
    if (link & 1) return 0;
  }
}

static uint32_t find_sysv(const dynamic_t *d, const char *name) {
  uint32_t hash = 0;
  for (const char *c = name; *c != '\0'; c++) {
    hash = (hash << 4) + (uint8_t)*c;
    hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
  }
  uint32_t bucket_count = d->sysv_hash[0], symbol_count = d->sysv_hash[1];
  if (bucket_count == 0) return 0;
  const uint32_t *chains = d->sysv_hash + 2 + bucket_count;
  uint32_t index = d->sysv_hash[2 + hash % bucket_count];
  for (uint32_t steps = 0; index != 0 && index < symbol_count && steps < symbol_count; steps++) {
    if (is_defined(d, index, name)) return index;
    index = chains[index];
  }
  return 0;
}

uint64_t dynamic_symbol(const dynamic_t *dynamic, const char *name, uint64_t *size) {
  if (dynamic->symbols == NULL || dynamic->names == NULL) return 0;
  uint32_t index = dynamic->gnu_hash != NULL    ? find_gnu(dynamic, name)
                   : dynamic->sysv_hash != NULL ? find_sysv(dynamic, name)
                                                : 0;
  if (index == 0) return 0;
  if (size != NULL) *size = dynamic->symbols[index].st_size;
  return dynamic->symbols[index].st_value + dynamic->slide;
}
