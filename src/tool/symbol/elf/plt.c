/* SPDX-License-Identifier: MIT
 *
 * Names for the stubs of the procedure linkage table. A stub jumps through a GOT slot; a relocation
 * fills the slot and names the symbol. An IRELATIVE relocation names no symbol but has the address
 * of a resolver, which chooses the function (gABI supplement, STT_GNU_IFUNC). The resolver's symbol
 * is the name of the function; libc calls its own memcpy this way. Without such a symbol, the stub
 * is named by the address, as in binutils.
 *
 * The slot of a stub is decoded from its instructions, because linkers lay stubs out differently
 * (.plt with a header entry, .plt.sec with CET, .plt.got without lazy binding). x86_64: `jmp
 * *disp(%rip)` is ff 25 disp32, after an optional endbr64 and bnd prefix f2. aarch64: `adrp x16,
 * page; ldr x17, [x16, #offset]; …` after an optional bti c.
 */
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbol/elf/symtab.h"

typedef struct got_slot {
  uint64_t address;
  uint64_t resolver; /* of an IRELATIVE relocation; else 0 */
  size_t table;      /* section index of the symbol table; 0: no symbol */
  uint32_t symbol;   /* index in that table */
} got_slot_t;

typedef struct got_slots {
  got_slot_t *items;
  size_t count, capacity;
  bool resolved; /* some relocations are IRELATIVE */
} got_slots_t;

static int compare_slots(const void *left, const void *right) {
  const got_slot_t *a = left, *b = right;
  return a->address < b->address ? -1 : a->address > b->address;
}

/* JUMP_SLOT, GLOB_DAT and IRELATIVE relocations fill slots. */
static bool fills_slot(GElf_Half machine, const GElf_Rela *rela) {
  GElf_Xword type = GELF_R_TYPE(rela->r_info);
  if (!GELF_R_SYM(rela->r_info)) return false;
  if (machine == EM_X86_64) return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
  return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
}
static bool is_resolved(GElf_Half machine, const GElf_Rela *rela) {
  return GELF_R_TYPE(rela->r_info) ==
         (machine == EM_X86_64 ? R_X86_64_IRELATIVE : R_AARCH64_IRELATIVE);
}

static bool read_slots(Elf *elf, GElf_Half machine, got_slots_t *slots) {
  Elf_Scn *section = NULL;
  GElf_Shdr header;
  while ((section = elf_nextscn(elf, section))) {
    if (!gelf_getshdr(section, &header) || header.sh_type != SHT_RELA || !header.sh_entsize ||
        !(header.sh_flags & SHF_ALLOC))
      continue;
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = header.sh_size / header.sh_entsize;
    for (size_t i = 0; data && i < count && i < INT32_MAX; i++) {
      GElf_Rela rela;
      if (!gelf_getrela(data, (int)i, &rela)) break;
      bool resolved = is_resolved(machine, &rela);
      if (!resolved && !fills_slot(machine, &rela)) continue;
      if (!ARRAY_GROW(slots->items, slots->count, slots->capacity)) return false;
      slots->resolved |= resolved;
      slots->items[slots->count++] =
          resolved
              ? (got_slot_t){rela.r_offset, (uint64_t)rela.r_addend, 0, 0}
              : (got_slot_t){rela.r_offset, 0, header.sh_link, (uint32_t)GELF_R_SYM(rela.r_info)};
    }
  }
  if (slots->count) qsort(slots->items, slots->count, sizeof(got_slot_t), compare_slots);
  return true;
}

/* Finds the symbols of the resolvers. */
static void name_resolved(Elf *elf, got_slots_t *slots) {
  Elf_Scn *section = NULL;
  GElf_Shdr header;
  while ((section = elf_nextscn(elf, section))) {
    if (!gelf_getshdr(section, &header) || !header.sh_entsize ||
        (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM))
      continue;
    Elf_Data *data = elf_getdata(section, NULL);
    size_t count = header.sh_size / header.sh_entsize;
    GElf_Sym sym;
    for (size_t i = 0; data && i < count && i < INT32_MAX; i++) {
      if (!gelf_getsym(data, (int)i, &sym)) break;
      if (GELF_ST_TYPE(sym.st_info) != STT_GNU_IFUNC || !sym.st_value) continue;
      for (got_slot_t *slot = slots->items; slot < slots->items + slots->count; slot++)
        if (slot->resolver == sym.st_value) {
          slot->table = elf_ndxscn(section);
          slot->symbol = (uint32_t)i;
        }
    }
  }
}

/* The slot that the stub in CODE (SIZE bytes, linked at ADDRESS) jumps through; 0: none found. */
static uint64_t slot_of_x86_64(const uint8_t *code, size_t size, uint64_t address) {
  for (size_t i = 0; i + 6 <= size; i++) {
    if (code[i] != 0xff || code[i + 1] != 0x25) continue;
    int32_t displacement;
    memcpy(&displacement, code + i + 2, 4);
    return address + i + 6 + (uint64_t)(int64_t)displacement;
  }
  return 0;
}

static uint64_t slot_of_aarch64(const uint8_t *code, size_t size, uint64_t address) {
  for (size_t i = 0; i + 8 <= size; i += 4) {
    uint32_t adrp, ldr;
    memcpy(&adrp, code + i, 4);
    memcpy(&ldr, code + i + 4, 4);
    if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211) continue;
    uint64_t page = (uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);
    if (page & 1u << 20) page |= ~(uint64_t)0 << 21;
    return ((address + i) & ~(uint64_t)0xfff) + (page << 12) + ((ldr >> 10 & 0xfff) << 3);
  }
  return 0;
}

static const char *symbol_of(Elf *elf, const got_slot_t *slot) {
  GElf_Shdr header;
  GElf_Sym sym;
  Elf_Scn *section = slot->table ? elf_getscn(elf, slot->table) : NULL;
  Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
  if (!data || !gelf_getshdr(section, &header) || slot->symbol > INT32_MAX ||
      !gelf_getsym(data, (int)slot->symbol, &sym))
    return NULL;
  const char *name = elf_strptr(elf, header.sh_link, sym.st_name);
  return name && *name ? name : NULL;
}

static bool add_stub(Elf *elf, const got_slots_t *slots, uint64_t slot, uint64_t address,
                     uint64_t size, facts_t *facts) {
  got_slot_t wanted = {.address = slot};
  const got_slot_t *found =
      bsearch(&wanted, slots->items, slots->count, sizeof wanted, compare_slots);
  if (!found) return true;
  char text[1024];
  const char *name = symbol_of(elf, found);
  if (!name && !found->resolver) return true;
  int length = name ? snprintf(text, sizeof text, "%s@plt", name)
                    : snprintf(text, sizeof text, "*ABS*+0x%" PRIx64 "@plt", found->resolver);
  if (length < 0 || (size_t)length >= sizeof text) return true;
  function_symbol_t symbol = {.address = address, .size = size};
  return strings_add(&facts->strings, text, &symbol.name) && facts_symbol(facts, &symbol);
}

static bool covers(uint64_t address, uint64_t size, const uint64_t *only) {
  return !only || *only - address < size;
}

static bool read_stubs(Elf *elf, GElf_Half machine, Elf_Scn *section, const GElf_Shdr *header,
                       const got_slots_t *slots, const uint64_t *only, facts_t *facts) {
  Elf_Data *data = elf_getdata(section, NULL);
  size_t step = header->sh_entsize == 8 && machine == EM_X86_64 ? 8 : 16; /* .plt.got: 8 */
  if (!data || !data->d_buf) return true;
  for (size_t at = 0; at + step <= data->d_size; at += step) {
    const uint8_t *code = (const uint8_t *)data->d_buf + at;
    uint64_t address = header->sh_addr + at;
    if (!covers(address, step, only)) continue;
    uint64_t slot = machine == EM_X86_64 ? slot_of_x86_64(code, step, address)
                                         : slot_of_aarch64(code, step, address);
    if (slot && !add_stub(elf, slots, slot, address, step, facts)) return false;
  }
  return true;
}

/* Returns the next section after SECTION with stubs, one of which may cover ONLY; NULL: none. */
static Elf_Scn *next_stubs(Elf *elf, size_t names, const uint64_t *only, Elf_Scn *section,
                           GElf_Shdr *header) {
  while ((section = elf_nextscn(elf, section))) {
    if (!gelf_getshdr(section, header) || header->sh_type != SHT_PROGBITS ||
        !covers(header->sh_addr, header->sh_size, only))
      continue;
    const char *name = elf_strptr(elf, names, header->sh_name);
    if (name && !strncmp(name, ".plt", 4)) return section;
  }
  return NULL;
}

bool symtab_read_plt(Elf *elf, const uint64_t *only, facts_t *facts) {
  GElf_Ehdr file;
  GElf_Shdr header;
  got_slots_t slots = {0};
  size_t names;
  if (!gelf_getehdr(elf, &file) || elf_getshdrstrndx(elf, &names) != 0 ||
      (file.e_machine != EM_X86_64 && file.e_machine != EM_AARCH64))
    return true;
  Elf_Scn *section = next_stubs(elf, names, only, NULL, &header);
  if (!section) return true;
  bool done = read_slots(elf, file.e_machine, &slots);
  if (done && slots.resolved) name_resolved(elf, &slots);
  for (; done && slots.count && section; section = next_stubs(elf, names, only, section, &header))
    done = read_stubs(elf, file.e_machine, section, &header, &slots, only, facts);
  free(slots.items);
  return done;
}
