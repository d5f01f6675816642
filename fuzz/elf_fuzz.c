/* SPDX-License-Identifier: MIT
 *
 * The ELF parser and the symbol table built from it, on arbitrary bytes. Checked beyond the
 * sanitizers: sections lie within the file, and a symbol covers the address that was looked up.
 */
#include <stdlib.h>

#include "image/image.h"
#include "image/symbols.h"

static void check(int ok) {
  if (!ok) abort();
}

static void check_section(const image_t *image, const section_t *s) {
  if (!s->data) return;
  check(s->data >= image->file && s->size <= image->file_size &&
        (uint64_t)(s->data - image->file) <= image->file_size - s->size);
}

static void check_symbols(const image_t *image) {
  symbols_t *symbols;
  if (symbols_build(image, 64 << 20, &symbols) != 0) return;
  for (uint32_t i = 0; i < symbols_count(symbols); i++) {
    image_symbol_t listed = symbols_at(symbols, i), found;
    check(listed.name[0] != 0);
    if (symbols_find(symbols, listed.address, &found))
      check(found.address == listed.address && (found.size == 0 || listed.size > 0));
    if (listed.size && symbols_find(symbols, listed.address + listed.size - 1, &found))
      check(found.address + found.size >= listed.address + listed.size || found.size == 0);
  }
  symbols_free(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  image_t image;
  section_t section;
  if (image_parse_bytes(&image, data, size) != 0) return 0;
  check_section(&image, &image.eh_frame_hdr);
  check_section(&image, &image.eh_frame);
  check_section(&image, &image.debug_frame);
  check_section(&image, &image.symtab);
  check_section(&image, &image.symtab_names);
  check_section(&image, &image.dynsym);
  check_section(&image, &image.dynsym_names);
  if (image_section(&image, ".debug_info", &section)) check_section(&image, &section);
  check_symbols(&image);
  return 0;
}
