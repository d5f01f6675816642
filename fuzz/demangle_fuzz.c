/* SPDX-License-Identifier: MIT
 *
 * Demangles arbitrary names: it must terminate and stay within its buffer.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char raw[4096], out[DEMANGLE_MAX];
  if (size >= sizeof raw) return 0;
  memcpy(raw, data, size);
  raw[size] = 0;
  if (demangle(raw, out, sizeof out) && strlen(out) >= sizeof out) abort();
  return 0;
}
