/* SPDX-License-Identifier: MIT
 *
 * The memory map of a process, whose paths may contain any bytes: as the command reads it and, line
 * by line, as the in-process library reads it.
 */
#include <stdlib.h>
#include <string.h>

#include "os/linux/internal.h"
#include "os/os.h"
#include "target/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  maps_t maps;
  os_region_t region;
  if (!text) return 0;
  memcpy(text, data, size);
  text[size] = 0;
  if (linux_parse_region(text, &region) &&
      (region.name < text || region.name > text + strlen(text)))
    abort();
  if (maps_parse(&maps, text, size))
    for (size_t i = 0; i < maps.count; i++)
      if (maps.items[i].start >= maps.items[i].end || !maps.items[i].path) abort();
  maps_free(&maps);
  return 0;
}
