/* SPDX-License-Identifier: MIT
 *
 * Perf maps and jitdump files, which another process writes while sonde reads. The first byte says
 * which, and how much there is at the first reading.
 */
#include <stddef.h>

#include "target/jit/parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count(void *context, jit_symbol_t *symbol) {
  *(size_t *)context += symbol->name[0] != 0;
}

static void read_dump(jit_t *jit, const uint8_t *data, size_t size, size_t first) {
  jit_parse_t state = {0};
  uint32_t pid;
  uint64_t at = size >= JIT_HEADER_BYTES ? jit_parse_header(&state, data, &pid) : 0;
  if (!at) return;
  for (uint64_t done = 1; done && at < first; at += done)
    done = jit_parse_records(&state, jit, data + at, first - (size_t)at);
  for (uint64_t done = 1; done && at < size; at += done)
    done = jit_parse_records(&state, jit, data + at, size - (size_t)at);
}

static void read_map(jit_t *jit, const char *text, size_t size, size_t first) {
  jit_parse_t state = {0};
  size_t done = jit_parse_perf_map(&state, jit, text, first);
  jit_parse_perf_map(&state, jit, text + done, size - done);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  jit_t *jit = jit_new();
  size_t found = 0;
  if (!jit || size < 1) return jit_close(jit), 0;
  size_t first = (size - 1) * (data[0] >> 1) / 127;
  if (data[0] & 1)
    read_dump(jit, data + 1, size - 1, first);
  else
    read_map(jit, (const char *)data + 1, size - 1, first);
  jit_find(jit, size);
  jit_find_all(jit, size, count, &found);
  jit_close(jit);
  return 0;
}
