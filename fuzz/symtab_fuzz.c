/* SPDX-License-Identifier: MIT
 *
 * Symbol tables, stubs and .gnu_debugdata of arbitrary ELF files, read through libelf and liblzma.
 * Debug information is not included: libdw reads it, and from a file.
 */
#include <stdlib.h>
#include <string.h>

#include "symbol/symbol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  symbol_options_t options = {.no_index = true, .no_lines = true};
  symbolizer_t *symbolizer = symbolizer_new(&options);
  symbol_source_t source = {.path = "fuzz", .bytes = data, .size = size};
  symbol_module_t *module = symbolizer_module(symbolizer, &source);
  uint64_t base;
  volatile size_t total = 0;
  for (uint64_t i = 0; symbol_link_base(module, &base) && i < 24; i++) {
    symbol_frame_t frame;
    symbol_reason_t reason;
    if (i == 12) symbol_expect(module, SIZE_MAX); /* the other look-ups use an index */
    int count = symbol_lookup(module, base + 0x1000 + i % 12 * 16, &frame, 1, &reason);
    if (count)
      total += strlen(frame.function);
    else if (reason == SYMBOL_NAMED)
      abort();
  }
  symbolizer_free(symbolizer);
  return 0;
}
