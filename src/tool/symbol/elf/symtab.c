/* SPDX-License-Identifier: MIT
 *
 * Reads symbol tables through libelf. See symtab.h.
 */
#include "symbol/elf/symtab.h"

#include <gelf.h>

#include "image/symbols.h"

typedef struct elf_symtab {
  Elf *elf;
  Elf_Data *data;
  size_t count, strings, section_count;
  const uint64_t *code_end; /* by section index; 0: no code */
  bool thumb;               /* bit 0 of a function's address is a flag (ARM ELF, 5.5.3) */
} elf_symtab_t;

static Elf_Scn *find_section(Elf *elf, GElf_Word type, GElf_Shdr *header) {
  Elf_Scn *section = NULL;
  while ((section = elf_nextscn(elf, section)))
    if (gelf_getshdr(section, header) && header->sh_type == type && header->sh_size) return section;
  return NULL;
}

#define SECTIONS_MAX 4096

/* Sets CODE_END, by section index, to the end of each section with code. */
static void find_code_ends(Elf *elf, uint64_t *code_end) {
  Elf_Scn *section = NULL;
  GElf_Shdr header;
  while ((section = elf_nextscn(elf, section))) {
    size_t index = elf_ndxscn(section);
    if (index < SECTIONS_MAX && gelf_getshdr(section, &header) && header.sh_flags & SHF_EXECINSTR)
      code_end[index] = header.sh_addr + header.sh_size;
  }
}

/* Returns whether SYM names code. Sets *UNSURE when only its section shows this, or its size is 0.
 */
static bool is_function(const elf_symtab_t *table, const GElf_Sym *sym, bool *unsure) {
  int type = GELF_ST_TYPE(sym->st_info);
  if (sym->st_shndx == SHN_UNDEF || !sym->st_name) return false;
  *unsure = !sym->st_size;
  if (type == STT_FUNC || type == STT_GNU_IFUNC) return true;
  *unsure = true;
  return type == STT_NOTYPE && sym->st_shndx < SECTIONS_MAX && table->code_end[sym->st_shndx];
}

static bool name_is_marker(const char *name) {
  return name[0] == '$' && (name[1] == 'x' || name[1] == 'd' || name[1] == 'a' || name[1] == 't') &&
         (!name[2] || name[2] == '.');
}

/* Returns whether SYMBOL may cover ONLY. Updates *NEAREST, the highest start of a symbol at or
 * below ONLY. */
static bool wanted(const function_symbol_t *symbol, const uint64_t *only, uint64_t *nearest) {
  if (!only) return true;
  if (symbol->address > *only) return false;
  if (symbol->address > *nearest) *nearest = symbol->address;
  if (!symbol->size) return *only < symbol->limit;
  return *only - symbol->address < symbol->size;
}

/* Decides which symbols from FIRST on cover ONLY. Drops a symbol of unknown size if a sized one
 * covers ONLY, or if another symbol starts in between. Sizes the rest so that they cover ONLY. */
static void resolve_unsized(facts_t *facts, size_t first, uint64_t only, uint64_t nearest) {
  size_t kept = first;
  bool sized = false;
  for (size_t i = first; i < facts->symbol_count; i++)
    sized |= facts->symbols[i].size != 0;
  for (size_t i = first; i < facts->symbol_count; i++) {
    function_symbol_t symbol = facts->symbols[i];
    if (!symbol.size && (sized || symbol.address < nearest)) continue;
    if (!symbol.size) symbol.size = only - symbol.address + 1;
    facts->symbols[kept++] = symbol;
  }
  facts->symbol_count = kept;
}

static bool read_symbols(const elf_symtab_t *table, uint64_t bias, bool yields,
                         const uint64_t *only, facts_t *facts) {
  size_t first = facts->symbol_count;
  uint64_t nearest = 0;
  for (size_t i = 1; i < table->count; i++) {
    GElf_Sym sym;
    bool unsure;
    if (!gelf_getsym(table->data, (int)i, &sym) || !is_function(table, &sym, &unsure)) continue;
    function_symbol_t symbol = {
        .address = sym.st_value + bias, .size = sym.st_size, .yields = yields || unsure};
    if (sym.st_shndx < SECTIONS_MAX && table->code_end[sym.st_shndx])
      symbol.limit = table->code_end[sym.st_shndx] + bias;
    if (table->thumb) symbol.address &= ~(uint64_t)1;
    if (!wanted(&symbol, only, &nearest)) continue;
    const char *name = elf_strptr(table->elf, table->strings, sym.st_name);
    if (!name || !*name || name_is_marker(name)) continue;
    if (!strings_add(&facts->strings, name, &symbol.name) || !facts_symbol(facts, &symbol))
      return false;
  }
  if (only) resolve_unsized(facts, first, *only, nearest);
  return true;
}

bool symtab_read(Elf *elf, uint64_t bias, bool yields, const uint64_t *only, facts_t *facts,
                 bool *found) {
  uint64_t code_end[SECTIONS_MAX] = {0};
  GElf_Shdr header;
  GElf_Ehdr file;
  Elf_Scn *section = find_section(elf, SHT_SYMTAB, &header);
  bool full = section != NULL;
  if (!full) section = find_section(elf, SHT_DYNSYM, &header);
  if (!section || !header.sh_entsize || !gelf_getehdr(elf, &file)) return true;
  elf_symtab_t table = {.elf = elf,
                        .data = elf_getdata(section, NULL),
                        .count = header.sh_size / header.sh_entsize,
                        .strings = header.sh_link,
                        .code_end = code_end,
                        .thumb = file.e_machine == EM_ARM};
  if (!table.data) return true;
  if (table.count > INT32_MAX) table.count = INT32_MAX;
  find_code_ends(elf, code_end);
  if (full) *found = true;
  return read_symbols(&table, bias, yields, only, facts);
}

#define DYNAMIC_BYTES_MAX ((uint64_t)256 << 20)

/* image/ finds the table without section headers. */
bool symtab_read_dynamic(Elf *elf, uint64_t code_high, facts_t *facts) {
  size_t sections, size;
  image_t image;
  symbols_t *symbols;
  bool done = true;
  if (elf_getshdrnum(elf, &sections) != 0 || sections) return true;
  const char *bytes = elf_rawfile(elf, &size);
  if (!bytes || image_parse_bytes(&image, (const uint8_t *)bytes, size) != 0 ||
      symbols_build(&image, DYNAMIC_BYTES_MAX, &symbols) != 0)
    return true;
  for (uint32_t i = 0; done && i < symbols_count(symbols); i++) {
    image_symbol_t found = symbols_at(symbols, i);
    function_symbol_t symbol = {.address = found.address,
                                .size = found.size,
                                .limit = code_high,
                                .yields = found.size == 0};
    done = strings_add(&facts->strings, found.name, &symbol.name) && facts_symbol(facts, &symbol);
  }
  symbols_free(symbols);
  return done;
}
