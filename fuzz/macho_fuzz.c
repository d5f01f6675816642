/* SPDX-License-Identifier: MIT
 *
 * The Mach-O parser, its tables and the symbol table built from it, on arbitrary bytes. Checked
 * beyond the sanitizers: tables lie within the file, and a symbol covers the address that was
 * looked up.
 */
#include <stdlib.h>
#include <string.h>

#include "image/macho/slots.h"
#include "image/symbols.h"
#include "symbol/macho/map.h"
#include "symbol/macho/symtab.h"
#include "unwind/compact.h"

static void check(int ok) {
  if (!ok) abort();
}

static void check_section(const image_t *image, section_t s) {
  if (!s.data) return;
  check(s.data >= image->file && s.size <= image->file_size &&
        (uint64_t)(s.data - image->file) <= image->file_size - s.size);
}

static void check_symbols(const image_t *image) {
  symbols_t *symbols;
  facts_t facts;
  bool found = false;
  if (symbols_build(image, 64 << 20, &symbols) == 0) {
    for (uint32_t i = 0; i < symbols_count(symbols); i++) {
      image_symbol_t listed = symbols_at(symbols, i), answer;
      check(listed.name[0] != 0);
      if (symbols_find(symbols, listed.address, &answer)) check(answer.address == listed.address);
    }
    symbols_free(symbols);
  }
  check(facts_init(&facts) && macho_symtab_read(image, NULL, &facts, &found));
  for (size_t i = 0; i < facts.symbol_count; i++)
    check(facts.symbols[i].size > 0);
  facts_free(&facts);
}

static void check_slots(const image_t *image) {
  macho_slot_list_t list;
  if (!macho_slots_read(image, &list)) return;
  for (uint32_t i = 0; i < list.count; i++) {
    const macho_slot_t *slot = &list.items[i];
    check(i == 0 || slot->address > list.items[i - 1].address);
    check(memchr(slot->name, 0, (size_t)(image->file + image->file_size - (uint8_t *)slot->name)) !=
          NULL);
    check(macho_slot_at(&list, slot->address) == slot);
  }
  macho_slots_free(&list);
}

/* Looks up addresses of the whole image in the compact unwind table, for both machines. */
static void check_rows(const image_t *image) {
  uint64_t base = macho_header_address(image);
  for (uint64_t i = 0; i < 512; i++) {
    uint64_t pc = base + (i < 256 ? i : (i - 256) * 97);
    cfi_row_t row;
    machine_t machine = i & 1 ? MACHINE_AARCH64 : MACHINE_X86_64;
    bool exact = i & 2;
    if (compact_find_row(image, machine, pc, exact, &row) != 0) continue;
    check(row.function_start <= pc && pc - !exact < row.function_end);
    check(row.cfa_register == machine_sp(machine) || row.cfa_register == machine_fp(machine));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  macho_slice_t slices[MACHO_SLICES_MAX];
  int count = macho_slices(data, size, slices);
  for (int i = 0; i < count && i < 3; i++) {
    image_t image = {.file = data, .file_size = size};
    macho_sections_t walk = {0};
    macho_section_t section;
    uint64_t at = 0, address = 0;
    size_t total = 0;
    check(slices[i].offset <= size && slices[i].size <= size - slices[i].offset);
    if (macho_parse_file(&image, &slices[i], NULL) != 0) continue;
    check_section(&image, image.symtab);
    check_section(&image, image.symtab_names);
    check_section(&image, image.eh_frame);
    check_section(&image, image.macho.unwind_info);
    check_section(&image, image.macho.indirect_symbols);
    while (macho_next_section(&image, &walk, &section))
      check_section(&image, macho_contents(&image, &section));
    while (macho_next_function(&image.macho.function_starts, &at, &address))
      total++;
    total += macho_export(&image, "main", &address) + macho_export(&image, "malloc", &address);
    total += macho_map_objects(&image);
    check_symbols(&image);
    check_slots(&image);
    check_rows(&image);
  }
  return 0;
}
