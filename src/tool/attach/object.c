/* SPDX-License-Identifier: MIT */
#include "attach/object.h"

#include <stdlib.h>
#include <string.h>

void object_close(object_t *object) {
  free(object->image);
  free(object->relocations);
  memset(object, 0, sizeof *object);
}

void object_relocate(object_t *object, uint64_t base) {
  for (size_t i = 0; i < object->relocation_count; i += 2) {
    uint64_t value = base + object->relocations[i + 1];
    memcpy(object->image + object->relocations[i], &value, sizeof value);
  }
}
