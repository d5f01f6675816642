/* SPDX-License-Identifier: MIT
 *
 * Perf maps and jitdump files, which another process writes while sonde reads.
 */
#include <stddef.h>

#include "target/jit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  jit_t *jit = jit_new("fuzz");
  if (!jit || size < 1) return jit_close(jit), 0;
  if (data[0] & 1)
    jit_parse_dump(jit, data + 1, size - 1);
  else
    jit_parse_perf_map(jit, (const char *)data + 1, size - 1);
  jit_sort(jit);
  jit_find(jit, size);
  jit_close(jit);
  return 0;
}
